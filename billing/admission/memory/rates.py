"""What started within the last minute, by name, counted in slots of five seconds.

A slot counts until all of it is older than a minute: never more than the limit within any 60 seconds, and
a place is free again after 65 at the latest. Not thread-safe: the store holds its lock. Times are seconds
of the store's clock; counts are integers.
"""

from collections import deque

from billing.admission.open_record import RateAsk

SLOT_MS = 5_000
SLOTS = 13
"""A minute, and the slot that is only partly older."""


class _Window:
    """parts: [slot, count] pairs that still count, oldest first, counts above 0; total: of all of them."""

    __slots__ = ("parts", "total")

    def __init__(self) -> None:
        self.parts: deque[list[int]] = deque()
        self.total = 0

    def expire(self, slot: int) -> None:
        """Forget what does not count any more in this slot."""
        while self.parts and self.parts[0][0] <= slot - SLOTS:
            self.total -= self.parts.popleft()[1]

    def add(self, slot: int, amount: int) -> None:
        if not self.parts or self.parts[-1][0] != slot:
            self.parts.append([slot, 0])
        self.parts[-1][1] += amount
        self.total += amount

    def take(self, amount: int) -> None:
        """The newest first, and no more than there is."""
        while amount > 0 and self.parts:
            taken = min(amount, self.parts[-1][1])
            self.parts[-1][1] -= taken
            self.total -= taken
            amount -= taken
            if not self.parts[-1][1]:
                self.parts.pop()


class Rates:
    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._pruned_at = 0

    def retry_after_s(self, ask: RateAsk, now: float) -> int:
        """0 when the amount fits now, else whole seconds until it does if nothing else starts meanwhile.

        An amount beyond the limit itself never fits: a minute is said then.
        """
        window = self._windows.get(ask.name)
        room = ask.limit - ask.amount
        if window is None:
            return 0 if room >= 0 else 60
        now_ms = int(now * 1000)
        window.expire(now_ms // SLOT_MS)
        if window.total <= room:
            return 0
        return _wait_s(window, room, now_ms)

    def add(self, name: str, amount: int, now: float) -> None:
        """A negative amount takes away no more than what still counts."""
        slot = int(now * 1000) // SLOT_MS
        if slot >= self._pruned_at + SLOTS:
            self._prune(slot)
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = _Window()
        window.expire(slot)
        if amount < 0:
            window.take(-amount)
        elif amount:
            window.add(slot, amount)

    def _prune(self, slot: int) -> None:
        """Once a minute: names that nothing counts under are forgotten."""
        self._pruned_at = slot
        for name, window in list(self._windows.items()):
            window.expire(slot)
            if not window.parts:
                del self._windows[name]


def _wait_s(window: _Window, room: int, now_ms: int) -> int:
    """Seconds until the oldest slots are gone that leave no more than `room`."""
    total = window.total
    for slot, count in window.parts:
        total -= count
        if total <= room:
            return max(1, -((now_ms - (slot + SLOTS) * SLOT_MS) // 1000))
    return 60
