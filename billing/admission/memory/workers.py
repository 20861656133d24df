"""The workers' side of the in-process store. `billing.admission.store` says what the methods do."""

from collections.abc import Collection, Sequence

from billing.admission.memory.core import Core
from billing.admission.memory.record import Record
from billing.admission.open_record import AccountState
from billing.admission.store import OpenState, RecordState, SettledCounts, SettledRecord


class MemoryWork:
    """All of that side but for the calls that the gateway's side has too, as coroutines."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._book = core.book

    def claim(self, limit: int) -> list[SettledRecord]:
        with self._core.lock:
            chosen = self._book.settled.claim(limit, self._core.now())
            return [settled_record(self._book.records[request_id]) for request_id in chosen]

    def acknowledge(self, request_ids: Collection[str], accounts: Sequence[AccountState] = ()) -> None:
        with self._core.lock:
            for request_id in request_ids:
                record = self._book.records.get(request_id)
                if record is not None and record.is_settled:
                    self._book.forget(record)
            self._book.accounts.put(accounts)

    def release(self, request_ids: Collection[str]) -> None:
        with self._core.lock:
            for request_id in request_ids:
                for queue in (self._book.settled, self._book.lost, self._book.orphans):
                    queue.release(request_id, self._core.now())

    def claim_abandoned(self, limit: int) -> list[tuple[str, bytes]]:
        with self._core.lock:
            now = self._core.now()
            chosen = self._book.orphans.claim(limit, now)
            if self._book.epochs.may_abandon(now):
                self._book.bury(now)
                chosen += self._book.lost.claim(limit - len(chosen), now)
            return [(request_id, self._book.records[request_id].payload) for request_id in chosen]

    def acknowledge_abandoned(self, request_ids: Collection[str], accounts: Sequence[AccountState]) -> None:
        with self._core.lock:
            for request_id in request_ids:
                if request_id in self._book.lost or request_id in self._book.orphans:
                    self._book.forget(self._book.records[request_id])
            self._book.accounts.put(accounts)

    def recompute(self) -> dict[int, int]:
        with self._core.lock:
            return self._book.recompute()

    def open_amounts(self) -> dict[int, int]:
        with self._core.lock:
            return self._book.accounts.open_amounts()

    def holders(self, lease: str) -> list[str]:
        with self._core.lock:
            self._book.bury(self._core.now())
            return self._book.leases.holders(lease)

    def settled_ids(self, limit: int) -> list[str]:
        with self._core.lock:
            return self._book.settled.ids(limit)

    def counts(self) -> SettledCounts:
        with self._core.lock:
            waiting, claimed, oldest_s = self._book.settled.counts(self._core.now())
            running = self._book.epochs.running() + len(self._book.lost) + len(self._book.orphans)
            return SettledCounts(waiting, claimed, oldest_s, running)

    def _state(self, request_id: str) -> RecordState | None:
        with self._core.lock:
            record = self._book.records.get(request_id)
            if record is None:
                return None
            state = OpenState.SETTLED if record.is_settled else OpenState.RUNNING
            return RecordState(state, record.payload, record.epoch)


class MemoryOpenRecords(MemoryWork):
    """The workers' port."""

    def accounts_put(self, accounts: Sequence[AccountState]) -> None:
        with self._core.lock:
            self._book.accounts.put(accounts)

    def state(self, request_id: str) -> RecordState | None:
        return self._state(request_id)

    def beat(self) -> None:
        with self._core.lock:
            self._book.epochs.note_beat(self._core.now())


def settled_record(record: Record) -> SettledRecord:
    """A record as workers and the spool see it."""
    return SettledRecord(record.request_id, record.payload, record.account_id, record.open_nano)
