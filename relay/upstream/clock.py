"""The real clock, on the running event loop."""

import asyncio
import time
from collections.abc import Callable

from relay.upstream.ports import Timer


class LoopClock:
    """Monotonic time is read from the system and not from the loop, whose own is up to a turn old."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(when - time.monotonic(), 0.0), callback)
