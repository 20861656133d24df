"""Hedging: when a backup may start beside an attempt that is late, and how many backups there may be.

No clock of its own. Hedging costs upstream requests whose answers nobody sees, so its ceilings hold over all
requests of a process.
"""

from collections import deque
from dataclasses import dataclass

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.path_families import is_replayable
from relay.core.request import RelayRequest

WINDOW_S = 60
"""Of the share of requests that may start a backup."""

_GATEWAY_ERRORS = frozenset({502, 503, 504, 530, *range(520, 530)})
"""Statuses by which a proxy before the upstream, or an upstream out of capacity, says so at once."""


def hedge_after_s(request: RelayRequest) -> float:
    """Seconds without a valid event after which a backup may start; 0 = never.

    Only what may be sent twice without an `Idempotency-Key`, whether or not there is one: the two upstreams
    know nothing of each other. Never what makes a picture or another artefact.
    """
    route = request.route
    if route is None or route.hedge_after_s <= 0 or request.is_image or not request.is_replayable:
        return 0.0
    return route.hedge_after_s if is_replayable_without_key(request) else 0.0


def is_replayable_without_key(request: RelayRequest) -> bool:
    is_artefact = request.route is not None and request.route.is_artefact
    return is_replayable(request.family, request.method, idempotency_key=None, artefact=is_artefact)


def is_gateway_error(failure: AttemptFailed) -> bool:
    """A failure so clear that waiting for the delay, or asking there again, would be a waste of time."""
    if failure.reason is EndReason.CONNECT_FAILED:
        return True
    return failure.reason is EndReason.UPSTREAM_REJECTED and failure.status in _GATEWAY_ERRORS


@dataclass(slots=True)
class _Second:
    at: int
    requests: int = 0
    backups: int = 0


class HedgeCeiling:
    """How many backups run, and which share of the requests of the last minute started one.

    Times are seconds of one monotonic clock. Costs a comparison and an addition for each request.
    """

    __slots__ = ("_backups", "_requests", "_seconds", "running")

    def __init__(self) -> None:
        self.running = 0
        self._requests = 0
        self._backups = 0
        self._seconds: deque[_Second] = deque([_Second(0)])

    def note_request(self, now: float) -> None:
        self._second(now).requests += 1
        self._requests += 1

    def take(self, now: float, *, max_share: float, max_running: int) -> bool:
        """A place for one backup; False at a ceiling.

        One a minute is allowed whatever the share makes of few requests, but for a share of 0.
        """
        second = self._second(now)
        allowed = max(1.0, max_share * self._requests) if max_share > 0 else 0.0
        if self.running >= max_running or self._backups + 1 > allowed:
            return False
        second.backups += 1
        self._backups += 1
        self.running += 1
        return True

    def give_back(self, now: float, *, was_made: bool) -> None:
        """The backup is over. was_made: it asked an upstream, so it counts in the share."""
        self.running -= 1
        if not was_made:
            self._second(now).backups -= 1
            self._backups -= 1

    def _second(self, now: float) -> _Second:
        at = int(now)
        newest = self._seconds[-1]
        if at <= newest.at:
            return newest
        while self._seconds and self._seconds[0].at <= at - WINDOW_S:
            over = self._seconds.popleft()
            self._requests -= over.requests
            self._backups -= over.backups
        self._seconds.append(_Second(at))
        return self._seconds[-1]
