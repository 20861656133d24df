"""The admission store as its two users see it. One store, two ports, two implementations.

An open record lives in the store from `admit` until `acknowledge`. While it runs it belongs to a process
epoch, carries a hold and leases; settled, it carries its amount and waits for a worker. Every call may be
repeated: a record settled again after it was acknowledged (a repeat of a batch whose answer got lost) comes
back once, finds its row written, and is acknowledged again: the request's row is the guard, the store
remembers nobody. available = balance - the sum of all open amounts, holds included.

Must not import: models, Redis. Payloads are opaque here (see `billing.outcome_codec`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from billing.admission.idempotency import IdempotencyPort
from billing.admission.open_record import AccountState, Admission, AdmissionAsk, LeaseAsk, RefusedLimit

CLAIM_SECONDS = 30
"""How long a claimed record stays hidden from other workers."""

ADMISSION_HOLDER = "*"
"""Holder of the leases that an admission asked for in any case; its candidate's have the holder "". """

HEARTBEAT_INTERVAL_S = 5
EPOCH_EXPIRES_S = 30
GRACE_S = 60
"""After the store started, or nobody's heartbeat had reached it for `SILENCE_S`: nothing is abandoned."""
SILENCE_S = 10


class StoreUnavailable(Exception):
    """The store did not answer in time, or refused. What was asked may or may not have happened."""


class OpenState(StrEnum):
    RUNNING = "running"
    SETTLED = "settled"


class SettledRecord(msgspec.Struct, frozen=True, gc=False):
    """payload: the encoded settlement, bytes. account_id, amount_nano: what replaces the hold; 0 = nobody
    pays.
    """

    request_id: str
    payload: bytes
    account_id: int = 0
    amount_nano: int = 0

    def __repr__(self) -> str:
        """Without the payload."""
        return f"SettledRecord({self.request_id!r}, {self.account_id}, {self.amount_nano} nano)"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The record of a running request, anew. hold_nano: what it holds from now on."""

    request_id: str
    account_id: int
    hold_nano: int
    record: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenRestore:
    """A running record as its process knows it, for a store that forgot it.

    leases: names of those asked for in any case, held by `ADMISSION_HOLDER`. attempt_leases: (holder, name)
    of the candidate's, holder "", and of those that `lease` took.
    """

    checkpoint: Checkpoint
    leases: tuple[str, ...] = ()
    attempt_leases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordState:
    """What the store knows of a request whose row may not exist yet. payload: of its state."""

    state: OpenState
    payload: bytes = field(repr=False)
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class SettledCounts:
    """waiting: nobody has claimed them; claimed: somebody works on them.

    oldest_waiting_s: seconds since the oldest waiting one was settled (or its claim ran out). running:
    open records of requests that are not over.
    """

    waiting: int
    claimed: int
    oldest_waiting_s: float
    running: int = 0


@dataclass(frozen=True, slots=True)
class Beat:
    """boot_id: changes when the store forgot what it held. was_lost: the epoch had expired (or was never
    there): its running records must be written again.
    """

    boot_id: str
    was_lost: bool


class AdmissionPort(Protocol):
    """The gateway's side: called on the event loop. Errors of every method: StoreUnavailable.

    A call whose caller is cancelled still reaches the store; what `admit` took is then withdrawn.
    """

    @property
    def idempotency(self) -> IdempotencyPort:
        """The markers of idempotency keys, in the same store."""

    async def admit(self, epoch: str, ask: AdmissionAsk) -> Admission:
        """All of it or nothing. Idempotent by request id: asked again, what was taken counts once."""

    async def lease(
        self, request_id: str, holder: str, candidates: Sequence[Sequence[LeaseAsk]]
    ) -> int | RefusedLimit:
        """The leases of a further attempt, for `holder` (unique in the request): the index of the first
        candidate with room. Nothing when the record is gone: 0.
        """

    def release_leases(self, request_id: str, holder: str) -> None:
        """Gives back what `lease` or, for holder "", the admission's candidate took; for `ADMISSION_HOLDER`
        what the admission asked for in any case. Queued, never waits.
        """

    def withdraw(self, request_id: str) -> None:
        """The request never ran: its record, hold and leases go. Queued, never waits; sent again until the
        store took it.
        """

    async def checkpoint(self, epoch: str, checkpoints: Sequence[Checkpoint]) -> frozenset[str]:
        """Ids of those whose raised hold the balance does not cover: they keep the old one."""

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        """The records wait for a worker from now on; all of them or, on an error, perhaps none. The amount
        replaces the hold, all leases go.
        """

    async def beat(self, epoch: str) -> Beat:
        """This process is alive. Every `HEARTBEAT_INTERVAL_S`; without it, the epoch expires after
        `EPOCH_EXPIRES_S` by the store's clock.
        """

    async def restore(self, epoch: str, records: Sequence[OpenRestore]) -> None:
        """Write running records again: holds and leases are taken whatever the limits say."""

    async def leave(self, epoch: str) -> None:
        """The process ends in order and holds nothing any more: the epoch goes."""

    async def accounts_put(self, accounts: Sequence[AccountState]) -> None:
        """Newer states win; older ones are ignored."""

    async def correct_rates(self, amounts: Mapping[str, int]) -> None:
        """Adds to (or takes from) the current minute of rates by name: the tokens a request really used."""

    async def state(self, request_id: str) -> RecordState | None:
        """None when the store does not hold the request."""

    def held(self) -> list[SettledRecord]:
        """Settled records that end with this process, claimed ones too; none where the store outlives it."""

    async def aclose(self) -> None:
        """Release connections. The port opens new ones when it is used again, on any loop."""


class OpenRecords(Protocol):
    """The workers' side: called from threads. Errors of every method: StoreUnavailable."""

    def claim(self, limit: int) -> list[SettledRecord]:
        """At most `limit` records, those that wait longest first, hidden from others for 30 s.

        An expired claim waits anew from the moment it ran out, so records that keep failing do not hold
        up the rest.
        """

    def acknowledge(self, request_ids: Collection[str], accounts: Sequence[AccountState] = ()) -> None:
        """The rows are written: forget the records, and take the balances that came of it."""

    def release(self, request_ids: Collection[str]) -> None:
        """Claimed records that could not be written may be claimed at once, behind those that wait.

        What was acknowledged meanwhile stays gone.
        """

    def claim_abandoned(self, limit: int) -> list[tuple[str, bytes]]:
        """(request id, encoded `OpenRecord`) of running records whose epoch expired, outside the grace
        time; hidden from other callers for 30 s. Booked, they are acknowledged like settled ones, unless
        they were settled meanwhile.
        """

    def acknowledge_abandoned(self, request_ids: Collection[str], accounts: Sequence[AccountState]) -> None:
        """Forget running records that were booked as abandoned; one that was settled meanwhile stays."""

    def accounts_put(self, accounts: Sequence[AccountState]) -> None: ...

    def recompute(self) -> dict[int, int]:
        """The cached sums of open amounts anew from the records.

        By how much they change, nano-dollars by account; those that were right are left out.
        """

    def open_amounts(self) -> dict[int, int]:
        """The cached sums, by account; zeros left out."""

    def holders(self, lease: str) -> list[str]:
        """Request ids that hold a place under a ceiling."""

    def state(self, request_id: str) -> RecordState | None: ...

    def settled_ids(self, limit: int) -> list[str]:
        """Settled records, oldest first: to find those whose row is final already."""

    def beat(self) -> None:
        """A worker or beat was here: somebody's heartbeat reached the store.

        Wanted more often than every `SILENCE_S`: when the only gateway dies, a longer silence looks like
        a store that could not be reached, and nothing is abandoned.
        """

    def counts(self) -> SettledCounts: ...
