"""What the stream runtime asks of the world: small Protocols, implemented in `gateway` and in tests."""

from collections.abc import Callable
from typing import Protocol

from relay.core.estimate import Evidence
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


class Recorder(Protocol):
    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:
        """Called exactly once a relay request. Must not block or raise.

        evidence: what missing usage can be estimated from.
        """
        ...
