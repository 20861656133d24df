"""Ids that wait to be claimed, the longest-waiting first, and claims that run out.

Not thread-safe: the store holds its lock. Times are seconds of the store's clock.
"""

from itertools import chain, islice

from billing.admission.store import CLAIM_SECONDS


class ClaimQueue:
    """Two dicts used as ordered sets: waiting ids in the order they began to wait, claimed ones in the
    order their claims run out, each id → that moment.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, float] = {}
        self._claimed: dict[str, float] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._waiting or request_id in self._claimed

    def __len__(self) -> int:
        return len(self._waiting) + len(self._claimed)

    def add(self, request_id: str, now: float) -> None:
        """One that is here keeps its place, or its claim."""
        if request_id not in self:
            self._waiting[request_id] = now

    def remove(self, request_id: str) -> None:
        """Gone, if it was here."""
        self._waiting.pop(request_id, None)
        self._claimed.pop(request_id, None)

    def claim(self, limit: int, now: float) -> list[str]:
        """At most `limit` ids, hidden from the next callers for a while."""
        self._return_expired(now)
        chosen = list(islice(self._waiting, limit))
        for request_id in chosen:
            del self._waiting[request_id]
            self._claimed[request_id] = now + CLAIM_SECONDS
        return chosen

    def release(self, request_id: str, now: float) -> None:
        """A claimed id waits again, behind the others."""
        if self._claimed.pop(request_id, None) is not None:
            self._waiting[request_id] = now

    def ids(self, limit: int) -> list[str]:
        """Waiting ones first."""
        return list(islice(chain(self._waiting, self._claimed), limit))

    def counts(self, now: float) -> tuple[int, int, float]:
        """How many wait, how many are claimed, and how long the oldest has been waiting."""
        self._return_expired(now)
        oldest = next(iter(self._waiting.values()), now)
        return len(self._waiting), len(self._claimed), now - oldest

    def _return_expired(self, now: float) -> None:
        expired: list[str] = []
        for request_id, expiry in self._claimed.items():
            if expiry > now:
                break
            expired.append(request_id)
        for request_id in expired:
            self._waiting[request_id] = self._claimed.pop(request_id)
