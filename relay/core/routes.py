"""Which model route holds for a request: found by tenant group and model."""

from collections.abc import Iterable

from relay.core.selection import matches
from relay.core.types import ModelRoute

_NAMES_KEPT = 1024


class RouteIndex:
    """The model routes of one configuration. Never changes once built.

    Names come from clients, so what was found is remembered in a table that starts afresh when it is full.
    """

    __slots__ = ("_found", "_routes")

    def __init__(self, routes: Iterable[ModelRoute] = ()) -> None:
        self._routes = tuple(sorted(routes, key=_rank, reverse=True))
        self._found: dict[tuple[str, str], ModelRoute | None] = {}

    def find(self, group: str, model: str) -> ModelRoute | None:
        """Of those that match, the longest literal pattern; of equals, the one that names the group."""
        if not self._routes:
            return None
        key = (group, model)
        if key not in self._found:
            if len(self._found) >= _NAMES_KEPT:
                self._found.clear()
            self._found[key] = self._search(group, model)
        return self._found[key]

    def _search(self, group: str, model: str) -> ModelRoute | None:
        for route in self._routes:
            if route.group in {"", group} and matches(route.model, model):
                return route
        return None


def _rank(route: ModelRoute) -> tuple[int, bool, bool]:
    """An exact name goes before a pattern of as many letters."""
    literal = len(route.model) - route.model.count("*")
    return literal, "*" not in route.model, bool(route.group)
