"""The health store of a single process."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from channels_admin.health.store import Route, RouteHealth


class MemoryHealth:
    """now: seconds on a clock that never goes back; tests give their own."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._failures: dict[Route, int] = {}
        self._cooling: dict[Route, tuple[float, str]] = {}

    def failed(self, route: Route) -> int:
        with self._lock:
            count = self._failures[route] = self._failures.get(route, 0) + 1
            return count

    def succeeded(self, route: Route) -> None:
        self.clear([route])

    def cool(self, route: Route, seconds: float, reason: str) -> None:
        with self._lock:
            until, _reason = self._cooling.get(route, (0.0, ""))
            if self._now() + seconds > until:
                self._cooling[route] = (self._now() + seconds, reason)

    def clear(self, routes: Sequence[Route]) -> None:
        with self._lock:
            for route in routes:
                self._failures.pop(route, None)
                self._cooling.pop(route, None)

    def states(self) -> Mapping[Route, RouteHealth]:
        with self._lock:
            now = self._now()
            self._cooling = {route: rest for route, rest in self._cooling.items() if rest[0] > now}
            return {route: self._state(route, now) for route in {*self._failures, *self._cooling}}

    def _state(self, route: Route, now: float) -> RouteHealth:
        until, reason = self._cooling.get(route, (now, ""))
        return RouteHealth(self._failures.get(route, 0), until - now, reason)
