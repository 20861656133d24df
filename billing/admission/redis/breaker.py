"""Whether it is worth asking a store that failed. Pure: whoever asks brings the time, in seconds."""

FAILURES_TO_OPEN = 3
PROBE_INTERVAL_S = 1.0


class Breaker:
    """Closed: everybody may ask. Open, after three failures in a row: one probe a second, until it works."""

    def __init__(self) -> None:
        self._failures = 0
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        return self._failures >= FAILURES_TO_OPEN

    def wait_s(self, now: float) -> float:
        """Seconds until somebody may ask, 0 = now. Changes nothing."""
        return max(0.0, self._next_probe - now) if self.is_open else 0.0

    def allows(self, now: float) -> bool:
        """Whether the caller may ask. While open this takes the probe: he must ask, and tell how it went."""
        if not self.is_open:
            return True
        if now < self._next_probe:
            return False
        self._next_probe = now + PROBE_INTERVAL_S
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, now: float) -> None:
        self._failures += 1
        self._next_probe = now + PROBE_INTERVAL_S
