"""What the stream runtime asks of the world: small Protocols, implemented in `gateway` and in tests."""

from collections.abc import Callable, Sequence
from typing import Protocol

from relay.core.estimate import Evidence
from relay.core.health import AttemptVerdict
from relay.core.outcomes import RequestOutcome
from relay.core.types import Channel, RelayFlags, UpstreamKey


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, for records only."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """when: seconds of `now`."""
        ...


class Chance(Protocol):
    def random(self) -> float:
        """0 ≤ x < 1."""
        ...


class Control(Protocol):
    """Asked before each further attempt."""

    def flags(self) -> RelayFlags: ...

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool:
        """False once the channel or key was disabled or revoked meanwhile."""
        ...

    def is_auto_disabled(self, key: UpstreamKey) -> bool:
        """Whether failures alone took the key or its channel out."""
        ...


class Recorder(Protocol):
    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:
        """Called exactly once a relay request. Must not block or raise.

        evidence: what missing usage can be estimated from.
        """
        ...


class Health(Protocol):
    """What is known of keys and channels. Answered from memory: called within a step, must not block."""

    def is_cooling(self, channel_id: int, key_id: int) -> bool:
        """The key, or its whole channel, is to be left alone for now."""
        ...

    def note(self, verdict: AttemptVerdict) -> None:
        """Called exactly once an attempt. Must not raise."""
        ...


class Leases(Protocol):
    """Places under the ceilings of channels and upstream keys."""

    async def take(
        self, request_id: str, number: int, candidates: Sequence[tuple[Channel, UpstreamKey]]
    ) -> int | None:
        """For attempt `number`: the index of the first candidate with room, leased; None if none has.

        Asked only where the nearest candidate has a ceiling; the last one may have none. Must not raise.
        """
        ...

    def give_back(self, request_id: str, number: int) -> None:
        """The attempt is over, once for each lease. Queued, must not block or raise.

        number 0: the lease that admission took for the first attempt.
        """
        ...


class NoHealth:
    """For probes: nothing is remembered."""

    def is_cooling(self, channel_id: int, key_id: int) -> bool:  # noqa: ARG002  the port's signature
        return False

    def note(self, verdict: AttemptVerdict) -> None:
        """Forgotten."""


class NoLeases:
    """For probes: there is always room."""

    async def take(
        self,
        request_id: str,  # noqa: ARG002  the port's signature
        number: int,  # noqa: ARG002
        candidates: Sequence[tuple[Channel, UpstreamKey]],  # noqa: ARG002
    ) -> int | None:
        return 0

    def give_back(self, request_id: str, number: int) -> None:
        """Nothing was taken."""
