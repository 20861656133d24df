"""Which serving processes are alive, by their heartbeats, and when nothing may be taken for abandoned.

Not thread-safe: the store holds its lock. Times are seconds of the store's clock.
"""

from billing.admission.store import EPOCH_EXPIRES_S, GRACE_S, SILENCE_S


class Epochs:
    """An epoch ends when no heartbeat came for `EPOCH_EXPIRES_S`. Each has the ids of its running records."""

    def __init__(self) -> None:
        self._expiry: dict[str, float] = {}
        self._running: dict[str, set[str]] = {}
        self._buried: set[str] = set()
        self._last_beat: float | None = None
        self._grace_until = 0.0

    def add(self, epoch: str, request_id: str, now: float) -> None:
        """A record runs. An epoch nobody has heard of begins with its first record."""
        self.begin(epoch, now)
        self._running[epoch].add(request_id)

    def begin(self, epoch: str, now: float) -> None:
        """As the first record does, for what is no record yet."""
        if epoch not in self._running:
            self._running[epoch] = set()
            self._expiry.setdefault(epoch, now + EPOCH_EXPIRES_S)

    def is_dead(self, epoch: str, now: float) -> bool:
        """Its process has not been heard for long, and could have been."""
        return self._expiry.get(epoch, 0.0) <= now and self.may_abandon(now)

    def remove(self, epoch: str, request_id: str) -> None:
        self._running.get(epoch, set()).discard(request_id)

    def beat(self, epoch: str, now: float) -> bool:
        """Whether the epoch had expired, or was never there."""
        self.note_beat(now)
        is_alive = self._expiry.get(epoch, 0.0) > now and epoch not in self._buried
        self._buried.discard(epoch)
        self._expiry[epoch] = now + EPOCH_EXPIRES_S
        self._running.setdefault(epoch, set())
        return not is_alive

    def note_beat(self, now: float) -> None:
        """Somebody reached the store. After a silence everybody has some time to be heard again."""
        if self._is_silent(now):
            self._grace_until = now + GRACE_S
        self._last_beat = now

    def leave(self, epoch: str) -> None:
        """Its heartbeat ends at once; records it left behind are found like those of a dead process."""
        self._expiry[epoch] = 0.0
        if not self._running.get(epoch):
            self._running.pop(epoch, None)
            del self._expiry[epoch]

    def bury(self, now: float) -> list[str]:
        """Ids of records whose epoch has expired since the last call; the epochs have none from now on."""
        dead = [epoch for epoch, expiry in self._expiry.items() if expiry <= now]
        found: list[str] = []
        for epoch in dead:
            del self._expiry[epoch]
            found += self._running.pop(epoch, ())
            self._buried.add(epoch)
        return found

    def may_abandon(self, now: float) -> bool:
        """Not while nobody is heard, nor in the grace time after that."""
        return now >= self._grace_until and not self._is_silent(now)

    def running(self) -> int:
        return sum(map(len, self._running.values()))

    def _is_silent(self, now: float) -> bool:
        return self._last_beat is None or now - self._last_beat > SILENCE_S
