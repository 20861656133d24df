"""What started within the last minute, by name: two counters a rate, the minute before fading out.

Not thread-safe: the store holds its lock. Times are seconds of the store's clock; counts are integers.
"""

from billing.admission.open_record import RateAsk

_MINUTE_MS = 60_000


class Rates:
    """A rate is [minute, counted in it, counted in the minute before]."""

    def __init__(self) -> None:
        self._windows: dict[str, list[int]] = {}
        self._pruned = 0

    def retry_after_s(self, ask: RateAsk, now: float) -> int:
        """0 when the amount fits now, else whole seconds until it does if nothing else starts meanwhile.

        An amount beyond the limit itself never fits: a minute is said then.
        """
        elapsed_ms = int(now * 1000) % _MINUTE_MS
        _, current, before = self._window(ask.name, now)
        room = ask.limit - ask.amount
        if current + _faded(before, elapsed_ms) <= room:
            return 0
        return _wait_s(room, current, before, elapsed_ms)

    def add(self, name: str, amount: int, now: float) -> None:
        """Amount may be negative, and takes away no more than what still counts."""
        window = self._window(name, now)
        counted = _faded(window[2], int(now * 1000) % _MINUTE_MS)
        window[1] = max(window[1] + amount, -counted) if amount < 0 else window[1] + amount
        self._windows[name] = window

    def _window(self, name: str, now: float) -> list[int]:
        """The rate's counters moved on to this minute."""
        minute = int(now * 1000) // _MINUTE_MS
        if minute != self._pruned:
            self._prune(minute)
        window = self._windows.get(name)
        if window is None:
            return [minute, 0, 0]
        if window[0] != minute:
            window[2] = max(window[1], 0) if window[0] == minute - 1 else 0
            window[0], window[1] = minute, 0
        return window

    def _prune(self, minute: int) -> None:
        """Once a minute: names that nothing was counted under are forgotten."""
        self._pruned = minute
        self._windows = {name: window for name, window in self._windows.items() if window[0] >= minute - 1}


def _faded(before: int, elapsed_ms: int) -> int:
    return before * (_MINUTE_MS - elapsed_ms) // _MINUTE_MS


def _wait_s(room: int, current: int, before: int, elapsed_ms: int) -> int:
    """Seconds until no more than `room` counts: as the minute before fades, or this one in its turn."""
    left_ms = _MINUTE_MS - elapsed_ms
    if room < 0:
        return 60
    if current <= room:
        wait_ms = left_ms - (room - current) * _MINUTE_MS // before
    else:
        wait_ms = left_ms + _MINUTE_MS - room * _MINUTE_MS // current
    return max(1, -(-wait_ms // 1000))
