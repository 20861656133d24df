"""The open records of the in-process store, and what is derived from them: sums, leases, queues, changes.

Records are changed by these methods only, so that none of it can part from them. Not thread-safe: the store
holds its lock. Times are seconds of the store's clock.
"""

from collections.abc import Collection, Iterable

from billing.admission.memory.accounts import Accounts
from billing.admission.memory.changes import Changes
from billing.admission.memory.claim_queue import ClaimQueue
from billing.admission.memory.epochs import Epochs
from billing.admission.memory.leases import Leases
from billing.admission.memory.record import Record
from billing.admission.mirrored import MirroredRecord
from billing.admission.store import SettledRecord


class Book:
    """settled: what waits for a worker. lost: running records of expired epochs. orphans: running records
    of earlier lives of this process, which nothing can bring back to life.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.accounts = Accounts()
        self.leases = Leases()
        self.epochs = Epochs()
        self.changes = Changes()
        self.settled = ClaimQueue()
        self.lost = ClaimQueue()
        self.orphans = ClaimQueue()

    def running(self, request_id: str) -> Record | None:
        """The record, while it runs."""
        record = self.records.get(request_id)
        return None if record is None or record.is_settled else record

    def run(self, record: Record, epoch: str, now: float) -> None:
        """A record runs from now on, in this epoch."""
        self.records[record.request_id] = record
        self.accounts.add(record.account_id, record.open_nano)
        record.epoch = epoch
        self.epochs.add(epoch, record.request_id, now)
        self.changes.note(record.request_id)

    def renew(self, record: Record, epoch: str, payload: bytes, now: float) -> None:
        """A running record anew; the process that runs it has this epoch now."""
        record.payload = payload
        if record.epoch != epoch or record.request_id in self.lost or record.request_id in self.orphans:
            self._leave_epoch(record)
            record.epoch = epoch
            self.epochs.add(epoch, record.request_id, now)
        self.changes.note(record.request_id)

    def set_open(self, record: Record, account_id: int, nano: int) -> None:
        """What the record holds from now on, and for whom."""
        self.accounts.add(record.account_id, -record.open_nano)
        self.accounts.add(account_id, nano)
        record.account_id, record.open_nano = account_id, nano

    def settle(self, settled: SettledRecord, now: float) -> None:
        """The record waits for a worker; a repeat keeps its place, or its claim."""
        record = self.records.get(settled.request_id)
        if record is None:
            record = self.records[settled.request_id] = Record(settled.request_id, 0, b"")
        if not record.is_settled:
            self._leave_epoch(record)
            self.drop_leases(record)
            record.is_settled = True
        self.set_open(record, settled.account_id, settled.amount_nano)
        record.payload = settled.payload
        self.settled.add(settled.request_id, now)
        self.changes.note(settled.request_id)

    def forget(self, record: Record) -> None:
        """The record goes, with all it holds."""
        self.set_open(record, record.account_id, 0)
        self.drop_leases(record)
        if record.is_settled:
            self.settled.remove(record.request_id)
        else:
            self._leave_epoch(record)
        del self.records[record.request_id]
        self.changes.note(record.request_id)

    def take_leases(self, record: Record, holder: str, names: Iterable[str]) -> None:
        for name in names:
            if (holder, name) not in record.leases:
                record.leases.append((holder, name))
                self.leases.take(name, (record.request_id, holder))

    def drop_leases(self, record: Record, holder: str | None = None) -> None:
        """Those of one holder, or all."""
        kept: list[tuple[str, str]] = []
        for owner, name in record.leases:
            if holder is None or owner == holder:
                self.leases.give_back(name, (record.request_id, owner))
            else:
                kept.append((owner, name))
        record.leases = kept

    def bury(self, now: float) -> None:
        """Records of expired epochs hold no leases any more, and wait to be booked as abandoned."""
        for request_id in self.epochs.bury(now):
            self.drop_leases(self.records[request_id])
            self.lost.add(request_id, now)

    def recompute(self) -> dict[int, int]:
        """The cached sums anew from the records; by how much wrong ones change, nano-dollars by account."""
        sums: dict[int, int] = {}
        for record in self.records.values():
            if record.account_id and record.open_nano:
                sums[record.account_id] = sums.get(record.account_id, 0) + record.open_nano
        return self.accounts.replace(sums)

    def bring_back(self, mirrored: Collection[MirroredRecord], now: float) -> None:
        """What an earlier life of this process left. A record that is here already outranks it."""
        for old in mirrored:
            if old.request_id in self.records:
                continue
            record = Record(old.request_id, 0, old.payload, epoch=old.epoch, is_settled=old.is_settled)
            self.records[old.request_id] = record
            self.set_open(record, old.account_id, old.open_nano)
            (self.settled if old.is_settled else self.orphans).add(old.request_id, now)

    def _leave_epoch(self, record: Record) -> None:
        self.epochs.remove(record.epoch, record.request_id)
        self.lost.remove(record.request_id)
        self.orphans.remove(record.request_id)
        record.epoch = ""
