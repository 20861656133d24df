"""Reference pages made of the tables in code, so that they cannot contradict it.

Each page is one function without arguments that returns markdown. `manage.py reference --write` puts them
into docs/; a test compares. Adding one: a module here, a row in `PAGES`, `manage.py reference --write`.
"""

from collections.abc import Callable, Mapping

from gateway.reference.end_reasons import end_reasons_page
from gateway.reference.settings import settings_page
from gateway.reference.simulator import simulator_page
from gateway.reference.timers import timers_page

PAGES: Mapping[str, Callable[[], str]] = {
    "end-reasons": end_reasons_page,
    "settings": settings_page,
    "simulator": simulator_page,
    "timers": timers_page,
}
"""Name → what makes the page; it is kept as docs/NAME.md."""

__all__ = ["PAGES"]
