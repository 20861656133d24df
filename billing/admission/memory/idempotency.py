"""Markers and answers of idempotency keys in the process. They end with it: after a restart all keys are new.

`billing.admission.idempotency` says what the methods do.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from billing.admission.idempotency import KEPT_S, Mark, Marker, MarkState
from billing.admission.memory.core import Core

MARKERS_MAX = 200_000
"""Beyond it the oldest are forgotten, ahead of their time."""
ANSWERS_BYTES_MAX = 64 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """epoch: of the process that works on it. expires_at: seconds of the store's clock."""

    marker: Marker
    epoch: str
    expires_at: float
    is_running: bool = True
    is_done: bool = False


class MemoryIdempotency:
    """Thread-safe. Entries and answers in the order in which they expire."""

    def __init__(self, core: Core, *, answers_bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._core = core
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self._answers_bytes = 0
        self._answers_bytes_max = answers_bytes_max

    async def begin(self, epoch: str, marker: Marker) -> Mark:
        with self._core.lock:
            self._forget_old()
            entry = self._entries.get(marker.key)
            if entry is None or self._is_free(entry):
                self._take(epoch, marker)
                return Mark(MarkState.MINE, marker.request_id)
            return Mark(self._state(entry, marker), entry.marker.request_id)

    async def restore(self, epoch: str, markers: Sequence[Marker]) -> None:
        with self._core.lock:
            for marker in markers:
                entry = self._entries.get(marker.key)
                if entry is None or self._is_free(entry):
                    self._take(epoch, marker)
                elif entry.marker.request_id == marker.request_id:
                    entry.epoch = epoch

    def release(self, marker: Marker) -> None:
        with self._core.lock:
            entry = self._own(marker)
            if entry is not None and entry.is_running:
                self._drop(marker.key)

    def ended(self, epoch: str, marker: Marker) -> None:
        with self._core.lock:
            if marker.key not in self._entries:
                self._take(epoch, marker)
            entry = self._own(marker)
            if entry is not None and entry.is_running:
                entry.is_running = False
                self._renew(entry)

    def finish(self, marker: Marker) -> None:
        with self._core.lock:
            entry = self._own(marker)
            if entry is not None:
                entry.is_running, entry.is_done = False, True

    async def keep(self, marker: Marker, answer: bytes) -> None:
        with self._core.lock:
            entry = self._own(marker)
            if entry is None:
                return
            entry.is_running, entry.is_done = False, True
            self._renew(entry)
            self._drop_answer(marker.request_id)
            self._answers[marker.request_id] = answer
            self._answers_bytes += len(answer)
            while self._answers_bytes > self._answers_bytes_max:
                self._drop_answer(next(iter(self._answers)))

    async def answer(self, request_id: str) -> bytes | None:
        with self._core.lock:
            self._forget_old()
            return self._answers.get(request_id)

    def _own(self, marker: Marker) -> _Entry | None:
        entry = self._entries.get(marker.key)
        return entry if entry is not None and entry.marker.request_id == marker.request_id else None

    def _state(self, entry: _Entry, marker: Marker) -> MarkState:
        if entry.marker.request_id == marker.request_id:
            return MarkState.MINE
        if entry.marker.fingerprint != marker.fingerprint:
            return MarkState.OTHER
        if entry.is_running or not (entry.is_done or self._is_dead(entry.epoch)):
            return MarkState.RUNNING
        is_kept = entry.marker.request_id in self._answers
        return MarkState.ANSWERED if is_kept else MarkState.UNANSWERED

    def _is_free(self, entry: _Entry) -> bool:
        return entry.is_running and self._is_dead(entry.epoch)

    def _is_dead(self, epoch: str) -> bool:
        return self._core.book.epochs.is_dead(epoch, self._core.now())

    def _take(self, epoch: str, marker: Marker) -> None:
        now = self._core.now()
        self._drop(marker.key)
        self._entries[marker.key] = _Entry(marker, epoch, now + KEPT_S)
        self._core.book.epochs.begin(epoch, now)
        if len(self._entries) > MARKERS_MAX:
            self._drop(next(iter(self._entries)))

    def _renew(self, entry: _Entry) -> None:
        entry.expires_at = self._core.now() + KEPT_S
        self._entries.move_to_end(entry.marker.key)

    def _forget_old(self) -> None:
        now = self._core.now()
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.expires_at > now:
                return
            self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._drop_answer(entry.marker.request_id)

    def _drop_answer(self, request_id: str) -> None:
        self._answers_bytes -= len(self._answers.pop(request_id, b""))
