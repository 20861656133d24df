"""The admission store as its two users see it. One store, two ports, two implementations.

A settled record is an outcome that waits for a worker. It lives in the store from `settle` until
`acknowledge`; in between any number of workers may claim it, one at a time. Every call may be repeated:
settling upserts by request id, acknowledging what is gone does nothing. A record settled again after it
was acknowledged (a repeat of a batch whose answer got lost) comes back once, finds its row written, and
is acknowledged again: the request's row is the guard, the store remembers nobody.

Must not import: models, Redis. Payloads are opaque here (see `billing.outcome_codec`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

CLAIM_SECONDS = 30
"""How long a claimed record stays hidden from other workers."""


class StoreUnavailable(Exception):
    """The store did not answer in time, or refused. What was asked may or may not have happened."""


class OpenState(StrEnum):
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class SettledRecord:
    """payload: the encoded outcome, bytes."""

    request_id: str
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecordState:
    """What the store knows of a request whose row may not exist yet."""

    state: OpenState
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SettledCounts:
    """waiting: nobody has claimed them; claimed: somebody works on them.

    oldest_waiting_s: seconds since the oldest waiting one was settled (or its claim ran out).
    """

    waiting: int
    claimed: int
    oldest_waiting_s: float


class AdmissionPort(Protocol):
    """The gateway's side: called on the event loop. Errors of every method: StoreUnavailable."""

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        """Keep the records until a worker acknowledges them; all of them or, on an error, perhaps none."""

    async def state(self, request_id: str) -> RecordState | None:
        """None when the store does not hold the request."""

    def held(self) -> list[SettledRecord]:
        """Records that end with this process, claimed ones too; none where the store outlives it."""

    async def aclose(self) -> None:
        """Release connections. The port opens new ones when it is used again, on any loop."""


class OpenRecords(Protocol):
    """The workers' side: called from threads. Errors of every method: StoreUnavailable."""

    def claim(self, limit: int) -> list[SettledRecord]:
        """At most `limit` records, those that wait longest first, hidden from others for 30 s.

        An expired claim waits anew from the moment it ran out, so records that keep failing do not hold
        up the rest.
        """

    def acknowledge(self, request_ids: Collection[str]) -> None:
        """The rows are written: forget the records."""

    def release(self, request_ids: Collection[str]) -> None:
        """Claimed records that could not be written may be claimed at once, behind those that wait.

        What was acknowledged meanwhile stays gone.
        """

    def counts(self) -> SettledCounts: ...
