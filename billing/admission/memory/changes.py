"""Which open records a mirror has to write or to forget. Not thread-safe: the store holds its lock."""

from collections.abc import Callable, Collection
from itertools import islice

from billing.admission.memory.record import Record
from billing.admission.mirrored import MirrorBatch, MirroredRecord


class Changes:
    """Nothing is noted while no mirror runs."""

    def __init__(self) -> None:
        self._is_wanted = False
        self._changed: dict[str, None] = {}
        self._written: set[str] = set()

    def note(self, request_id: str) -> None:
        if self._is_wanted:
            self._changed[request_id] = None

    def begin(self, written: Collection[str]) -> None:
        """A mirror runs from now on. written: ids it has already."""
        self._is_wanted = True
        self._written.update(written)

    def is_written(self, request_id: str) -> bool:
        """Whether the mirror has the record as it is now."""
        return request_id in self._written and request_id not in self._changed

    def take(self, limit: int, find: Callable[[str], Record | None]) -> MirrorBatch:
        """At most `limit` changes, the oldest first. A record that came and went in between costs nothing."""
        upserts: list[MirroredRecord] = []
        deletes: list[str] = []
        for request_id in list(islice(self._changed, limit)):
            del self._changed[request_id]
            record = find(request_id)
            if record is not None:
                upserts.append(_mirrored(record))
            elif request_id in self._written:
                deletes.append(request_id)
            self._written.discard(request_id)
        return MirrorBatch(tuple(upserts), tuple(deletes))

    def confirm(self, batch: MirrorBatch) -> None:
        """The mirror wrote them."""
        self._written.update(record.request_id for record in batch.upserts)

    def put_back(self, batch: MirrorBatch) -> None:
        """The mirror could not write them: they are changes still.

        They may have been written all the same, so their rows are deleted when they go.
        """
        for request_id in (*(record.request_id for record in batch.upserts), *batch.deletes):
            self._written.add(request_id)
            self._changed[request_id] = None


def _mirrored(record: Record) -> MirroredRecord:
    return MirroredRecord(
        request_id=record.request_id,
        is_settled=record.is_settled,
        epoch=record.epoch,
        account_id=record.account_id,
        open_nano=record.open_nano,
        payload=record.payload,
    )
