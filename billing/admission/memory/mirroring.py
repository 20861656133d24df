"""What a mirror asks of the in-process store. Called from the mirror's thread."""

from collections.abc import Collection

from billing.admission.memory.core import Core
from billing.admission.mirrored import MirrorBatch, MirroredRecord


class MirrorSource:
    """`begin` before the first request, then `take` and `confirm` or `put_back` in turns."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def begin(self, mirrored: Collection[MirroredRecord]) -> None:
        """Bring back what an earlier life left, and note changes from now on.

        Running ones may be claimed as abandoned at once: nobody else can run them.
        """
        with self._core.lock:
            book = self._core.book
            book.changes.begin([record.request_id for record in mirrored])
            book.bring_back(mirrored, self._core.now())

    def take(self, limit: int) -> MirrorBatch:
        with self._core.lock:
            return self._core.book.changes.take(limit, self._core.book.records.get)

    def confirm(self, batch: MirrorBatch) -> None:
        with self._core.lock:
            self._core.book.changes.confirm(batch)

    def put_back(self, batch: MirrorBatch) -> None:
        with self._core.lock:
            self._core.book.changes.put_back(batch)
