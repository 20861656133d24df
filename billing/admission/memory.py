"""The store of a single process: one thread-safe object that serves both ports.

Must not import: Redis, models. What it holds dies with the process.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence

from billing.admission.store import CLAIM_SECONDS, OpenState, RecordState, SettledCounts, SettledRecord


class MemoryStore:
    """now: seconds on a clock that never goes back; tests give their own.

    Both queues are dicts used as ordered sets: waiting ones in the order they began to wait, claimed
    ones in the order their claims run out, each id → that moment.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._payloads: dict[str, bytes] = {}
        self._waiting: dict[str, float] = {}
        self._claimed: dict[str, float] = {}

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        with self._lock:
            now = self._now()
            for record in records:
                if record.request_id not in self._payloads:
                    self._waiting[record.request_id] = now
                self._payloads[record.request_id] = record.payload

    async def state(self, request_id: str) -> RecordState | None:
        payload = self._payloads.get(request_id)
        return None if payload is None else RecordState(OpenState.SETTLED, payload)

    def held(self) -> list[SettledRecord]:
        with self._lock:
            return [SettledRecord(request_id, payload) for request_id, payload in self._payloads.items()]

    async def aclose(self) -> None:
        """Nothing to release."""

    def claim(self, limit: int) -> list[SettledRecord]:
        with self._lock:
            now = self._now()
            self._return_expired(now)
            chosen = list(self._waiting)[:limit]
            for request_id in chosen:
                del self._waiting[request_id]
                self._claimed[request_id] = now + CLAIM_SECONDS
            return [SettledRecord(request_id, self._payloads[request_id]) for request_id in chosen]

    def acknowledge(self, request_ids: Collection[str]) -> None:
        with self._lock:
            for request_id in request_ids:
                self._payloads.pop(request_id, None)
                self._waiting.pop(request_id, None)
                self._claimed.pop(request_id, None)

    def release(self, request_ids: Collection[str]) -> None:
        with self._lock:
            now = self._now()
            for request_id in request_ids:
                if self._claimed.pop(request_id, None) is not None:
                    self._waiting[request_id] = now

    def counts(self) -> SettledCounts:
        with self._lock:
            now = self._now()
            self._return_expired(now)
            oldest = next(iter(self._waiting.values()), now)
            return SettledCounts(len(self._waiting), len(self._claimed), now - oldest)

    def _return_expired(self, now: float) -> None:
        expired: list[str] = []
        for request_id, expiry in self._claimed.items():
            if expiry > now:
                break
            expired.append(request_id)
        for request_id in expired:
            self._waiting[request_id] = self._claimed.pop(request_id)
