"""The runtime's view of health: which channels and keys rest, and what their attempts told.

Reads are answered from memory, renewed a few times a second from the store. Verdicts are told to the store by
a thread; a failure that crosses the threshold switches the route off. A process's own cooldowns act at once.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping

from django.db import Error as AnyDatabaseError

from channels_admin.health import HealthStore, HealthUnavailable, Route, RouteHealth, RouteKind
from channels_admin.services.route_health import route_auto_disable
from gateway.threads import DatabaseThreads
from relay.core.end_reasons import HealthEffect
from relay.core.health import AttemptVerdict, Blames
from relay.upstream.aio_tasks import spawn

POLL_S = 0.3
VERDICTS_KEPT = 10_000
"""Beyond it the oldest are forgotten: the store has been away for long, and health is a hint."""

_logger = logging.getLogger(__name__)


class HealthWatch:
    """`relay.upstream.ports.Health`. threshold: failures in a row that switch a route off; may change."""

    def __init__(
        self, store: HealthStore, *, threshold: Callable[[], int], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._threshold = threshold
        self._now = now
        self._threads = DatabaseThreads(name="health", size=1)
        self._verdicts: deque[AttemptVerdict] = deque(maxlen=VERDICTS_KEPT)
        self._failing: set[Route] = set()
        self._cooling: dict[Route, float] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_away = False

    def is_cooling(self, channel_id: int, key_id: int) -> bool:
        if not self._cooling:
            return False
        now = self._now()
        routes = (Route(RouteKind.KEY, key_id), Route(RouteKind.CHANNEL, channel_id))
        return any(self._cooling.get(route, 0.0) > now for route in routes)

    def note(self, verdict: AttemptVerdict) -> None:
        """Costs a microsecond for a success of a sound route."""
        if verdict.cooldown_s > 0:
            key = Route(RouteKind.KEY, verdict.key_id)
            self._cooling[key] = max(self._now() + verdict.cooldown_s, self._cooling.get(key, 0.0))
        elif not self._says_something_new(verdict):
            return
        self._verdicts.append(verdict)
        self._wake.set()

    def _says_something_new(self, verdict: AttemptVerdict) -> bool:
        if verdict.effect is HealthEffect.SUCCESS:
            return bool(self._failing) and not self._failing.isdisjoint(_routes(verdict))
        return verdict.effect is HealthEffect.FAILURE

    async def start(self) -> None:
        await self._refresh()
        self._task = spawn(self._run(), name="health-watch")

    async def aclose(self) -> None:
        """Tells the store what is still to be told, if it answers."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._refresh()
        await self._threads.aclose()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self._refresh()

    async def _refresh(self) -> None:
        untold = deque(self._verdicts)
        self._verdicts.clear()
        try:
            states = await self._threads.run(self._exchange, untold)
        except (HealthUnavailable, AnyDatabaseError) as error:
            self._verdicts = deque([*untold, *self._verdicts], maxlen=VERDICTS_KEPT)
            if not self._is_away:
                _logger.warning("health is not shared for now: %s", type(error).__name__)
            self._is_away = True
            return
        self._is_away = False
        self._take(states)

    def _take(self, states: Mapping[Route, RouteHealth]) -> None:
        now = self._now()
        self._failing = {route for route, health in states.items() if health.failures}
        self._cooling = {
            route: now + health.cooling_s for route, health in states.items() if health.cooling_s
        }
        for verdict in self._verdicts:  # came meanwhile
            if verdict.cooldown_s > 0:
                self._cooling[Route(RouteKind.KEY, verdict.key_id)] = now + verdict.cooldown_s

    # In the thread.

    def _exchange(self, untold: deque[AttemptVerdict]) -> Mapping[Route, RouteHealth]:
        """Those that were told leave `untold`, whatever happens then: none may count twice."""
        while untold:
            self._tell(untold[0])
            untold.popleft()
        return self._store.states()

    def _tell(self, verdict: AttemptVerdict) -> None:
        if verdict.cooldown_s > 0:
            self._store.cool(Route(RouteKind.KEY, verdict.key_id), verdict.cooldown_s, verdict.reason)
        for route in _routes(verdict):
            if verdict.effect is HealthEffect.SUCCESS:
                self._store.succeeded(route)
            elif verdict.effect is HealthEffect.FAILURE:
                self._count(route, verdict.reason)

    def _count(self, route: Route, reason: str) -> None:
        failures, threshold = self._store.failed(route), self._threshold()
        if failures < threshold:
            return
        if route_auto_disable(route=route, reason=f"{failures} failures in a row, the last: {reason}"):
            _logger.warning("%s %d went out after %d failures: %s", route.kind, route.id, failures, reason)


def _routes(verdict: AttemptVerdict) -> tuple[Route, ...]:
    """A success speaks for both; a failure for what it blames."""
    channel, key = Route(RouteKind.CHANNEL, verdict.channel_id), Route(RouteKind.KEY, verdict.key_id)
    if verdict.effect is HealthEffect.SUCCESS:
        return channel, key
    return (key,) if verdict.blames is Blames.KEY else (channel,)
