"""A time limit for exchanges that follow one another: one timer for all, as one each would cost too much."""

import asyncio
from collections.abc import Callable

_LAG_S = 0.02
"""Later than this, a timer's lateness is the loop's."""


class TimeLimit:
    """seconds: for each exchange. Used on one loop, for one exchange at a time.

    The timer looks again when it fires, instead of being made anew with each exchange.
    """

    __slots__ = ("_ends_at", "_expire", "_is_patient", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expire: Callable[[], None] | None = None
        self._ends_at = 0.0
        self._is_patient = True
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, expire: Callable[[], None]) -> None:
        """An exchange begins, or its next part; `expire` is called when its time is up."""
        loop = asyncio.get_running_loop()
        self._expire, self._ends_at, self._is_patient = expire, loop.time() + self._seconds, True
        if self._timer is None:
            self._arm(loop)

    def release(self) -> None:
        """It is over; the timer may fire once more, for nothing."""
        self._expire = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_at(self._ends_at, self._look, loop, self._ends_at)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._timer = None
        if self._expire is None:
            return
        now = loop.time()
        if self._is_patient and now - due > _LAG_S:
            # A loop that stood still itself (a busy machine) has not read what the server may have said.
            self._is_patient, self._ends_at = False, now + self._seconds
        if now < self._ends_at:
            self._arm(loop)
        else:
            self._expire()
