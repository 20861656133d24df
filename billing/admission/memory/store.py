"""The store of a single process: the gateway's side, and the way to the workers' one.

What it holds dies with the process, unless a mirror is attached (`billing.admission.mirror`).
Must not import: Redis, models.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from billing.admission.memory.admitting import admit, candidate_lease, hold_raise
from billing.admission.memory.book import Book
from billing.admission.memory.core import Core
from billing.admission.memory.idempotency import MemoryIdempotency
from billing.admission.memory.mirroring import MirrorSource
from billing.admission.memory.record import Record
from billing.admission.memory.workers import MemoryOpenRecords, MemoryWork, settled_record
from billing.admission.open_record import AccountState, Admission, AdmissionAsk, LeaseAsk, RefusedLimit
from billing.admission.store import (
    ADMISSION_HOLDER,
    Beat,
    Checkpoint,
    OpenRestore,
    RecordState,
    SettledRecord,
)


class MemoryStore(MemoryWork):
    """The gateway's port, thread-safe. workers: the other port onto the same records; mirror_source: what
    a mirror reads. now: seconds on a clock that never goes back; tests give their own.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Core(now))
        self.workers = MemoryOpenRecords(self._core)
        self.mirror_source = MirrorSource(self._core)
        self.idempotency = MemoryIdempotency(self._core)

    async def admit(self, epoch: str, ask: AdmissionAsk) -> Admission:
        core = self._core
        with core.lock:
            return admit(core.book, core.rates, epoch, ask, core.now())

    async def lease(
        self, request_id: str, holder: str, candidates: Sequence[Sequence[LeaseAsk]]
    ) -> int | RefusedLimit:
        with self._core.lock:
            return candidate_lease(self._book, request_id, holder, candidates, self._core.now())

    def release_leases(self, request_id: str, holder: str) -> None:
        with self._core.lock:
            record = self._book.running(request_id)
            if record is not None:
                self._book.drop_leases(record, holder)

    def withdraw(self, request_id: str) -> None:
        with self._core.lock:
            record = self._book.running(request_id)
            if record is not None:
                self._book.forget(record)

    async def checkpoint(self, epoch: str, checkpoints: Sequence[Checkpoint]) -> frozenset[str]:
        refused: set[str] = set()
        with self._core.lock:
            for checkpoint in checkpoints:
                record = self._book.running(checkpoint.request_id)
                if record is None:
                    continue
                if not hold_raise(self._book, record, checkpoint.hold_nano):
                    refused.add(checkpoint.request_id)
                self._book.renew(record, epoch, checkpoint.record, self._core.now())
        return frozenset(refused)

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        with self._core.lock:
            now = self._core.now()
            for record in records:
                self._book.settle(record, now)

    async def beat(self, epoch: str) -> Beat:
        with self._core.lock:
            return Beat(self._core.boot_id, self._book.epochs.beat(epoch, self._core.now()))

    async def restore(self, epoch: str, records: Sequence[OpenRestore]) -> None:
        with self._core.lock:
            now = self._core.now()
            for record in records:
                _restore(self._book, epoch, record, now)

    async def leave(self, epoch: str) -> None:
        with self._core.lock:
            self._book.epochs.leave(epoch)

    async def accounts_put(self, accounts: Sequence[AccountState]) -> None:
        self.workers.accounts_put(accounts)

    async def correct_rates(self, amounts: Mapping[str, int]) -> None:
        with self._core.lock:
            now = self._core.now()
            for name, amount in amounts.items():
                self._core.rates.add(name, amount, now)

    async def state(self, request_id: str) -> RecordState | None:
        return self._state(request_id)

    def held(self) -> list[SettledRecord]:
        with self._core.lock:
            is_lasting = self._book.changes.is_written
            records = self._book.records.values()
            return [
                settled_record(one) for one in records if one.is_settled and not is_lasting(one.request_id)
            ]

    async def aclose(self) -> None:
        """Nothing to release."""


def _restore(book: Book, epoch: str, restore: OpenRestore, now: float) -> None:
    """A settled record outranks what its process remembers of the time before."""
    checkpoint = restore.checkpoint
    record = book.records.get(checkpoint.request_id)
    if record is None:
        record = Record(checkpoint.request_id, checkpoint.account_id, checkpoint.record, checkpoint.hold_nano)
        book.run(record, epoch, now)
    elif record.is_settled:
        return
    else:
        book.set_open(record, checkpoint.account_id, checkpoint.hold_nano)
        book.renew(record, epoch, checkpoint.record, now)
    book.take_leases(record, ADMISSION_HOLDER, restore.leases)
    for holder, name in restore.attempt_leases:
        book.take_leases(record, holder, (name,))
