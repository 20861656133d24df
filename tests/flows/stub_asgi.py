"""The application of `tests.flows.stub_settings`: stub views, and a wiring that needs no database."""

from gateway import asgi, wiring  # noqa: F401  asgi sets Django up, before the views are imported
from gateway.front.drain import drain
from tests.flows import views

_is_started = False


async def start() -> None:
    global _is_started  # noqa: PLW0603  a stub of a module
    _is_started = True
    drain.on_stop_all(views.stop_all)


async def stop() -> None:
    print("wiring stopped", flush=True)  # noqa: T201  the test reads it


wiring.start, wiring.stop, wiring.is_ready = start, stop, lambda: _is_started
application = views.stub_application()
