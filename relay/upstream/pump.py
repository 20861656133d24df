"""The bounded queue between the one upstream reader and the one client writer of a request.

The reader alone puts and alone marks the end. The writer iterates: each item is whole events, ready to
be sent, or a keepalive when nothing was written for a while. Nothing here parses, and nothing here
knows who the client or the upstream is.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from relay.core.sse import KEEPALIVE
from relay.core.stream_state import KEEPALIVE_S, NEVER, WRITE_TIMEOUT_S
from relay.upstream.deadline import Deadline
from relay.upstream.ports import Clock

MAX_ITEMS = 64
MAX_BYTES = 1024 * 1024
WRITE_BYTES = 64 * 1024
"""Queued items are joined into one write up to this size."""


class Pump:
    """`async for data in pump` yields bytes until the reader has finished and the queue is empty.

    on_write_timeout: called once when the client has not taken a write within `write_timeout_s`.
    """

    __slots__ = (
        "_clock", "_deadline", "_finished", "_is_watched", "_item_waiter", "_items",
        "_keepalive_bytes", "_keepalive_s", "_last_write_at", "_on_write_timeout",
        "_sends_keepalives", "_size", "_space_waiter", "_write_began_at", "_write_timeout_s", "_writing",
        "bytes_out", "keepalives", "loop",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        on_write_timeout: Callable[[], None],
        *,
        keepalive_s: float = KEEPALIVE_S,
        write_timeout_s: float = WRITE_TIMEOUT_S,
    ) -> None:
        self._clock = clock
        self.loop = asyncio.get_running_loop()
        self._on_write_timeout = on_write_timeout
        self._keepalive_s = keepalive_s
        self._keepalive_bytes = KEEPALIVE
        self._write_timeout_s = write_timeout_s
        self._items: deque[bytes] = deque()
        self._size = 0
        self._finished = False
        self._sends_keepalives = False
        self._item_waiter: asyncio.Future[None] | None = None
        self._space_waiter: asyncio.Future[None] | None = None
        self._writing = False
        self._write_began_at = self._last_write_at = clock.now()
        self._is_watched = False
        self._deadline = Deadline(clock, self._on_deadline)
        self.keepalives = 0
        self.bytes_out = 0

    # The reader's side.

    @property
    def is_full(self) -> bool:
        return self._size >= MAX_BYTES or len(self._items) >= MAX_ITEMS

    def put_now(self, data: bytes) -> None:
        """Queues whole events without regard to the bound: held preamble, the in-band error."""
        if self._finished or not data:
            return
        self._items.append(data)
        self._size += len(data)
        self._wake_writer()

    async def put(self, data: bytes) -> float:
        """Queues whole events; waits while the queue is full. Returns the seconds it waited."""
        waited_s = await self._room() if self.is_full else 0.0
        self.put_now(data)
        return waited_s

    async def _room(self) -> float:
        began = self._clock.now()
        while self.is_full and not self._finished:
            self._space_waiter = self.loop.create_future()
            try:
                await self._space_waiter
            finally:
                self._space_waiter = None
        return self._clock.now() - began

    def finish(self) -> None:
        """No more will be put; what is queued is still written. Idempotent."""
        self._finished = True
        self._wake_writer()

    def discard(self) -> None:
        """The client is gone: drops what is queued, and all that is still put. Idempotent."""
        self._finished = True
        self._items.clear()
        self._size = 0
        self._wake_reader()
        self._wake_writer()

    # The writer's side.

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""
        return not self._items

    @property
    def is_at_end(self) -> bool:
        """What was taken last was the last: nothing waits, and nothing will be put."""
        return self._finished and not self._items

    def start_keepalives(self, keepalive: bytes = KEEPALIVE) -> None:
        """From now on a stream is under way. keepalive: what stands for one in it."""
        self._sends_keepalives = True
        self._keepalive_bytes = keepalive
        self._last_write_at = self._clock.now()
        self._watch()

    def __aiter__(self) -> "Pump":
        return self

    async def __anext__(self) -> bytes:
        if self._writing:
            self._writing = False
            self._last_write_at = self._clock.now()
        while not self._items:
            if self._finished:
                self.begin_write()  # the closing write has the same deadline
                raise StopAsyncIteration
            self._item_waiter = self.loop.create_future()
            try:
                await self._item_waiter
            finally:
                self._item_waiter = None
            if not self._items and not self._finished:
                return self._keepalive()
        data = self._take()
        self.bytes_out += len(data)
        self.begin_write()
        return data

    def begin_write(self) -> None:
        """A write begins: an item's, the head's, a whole body's, the closing one."""
        self._writing = True
        self._write_began_at = self._clock.now()
        if not self._is_watched:
            self._watch()

    def close(self) -> None:
        """The writer is done. Ends the timers. Idempotent."""
        self._writing = False
        self._on_write_timeout = _nothing
        self._deadline.close()

    def _take(self) -> bytes:
        items = self._items
        data = items.popleft()
        if items and len(data) < WRITE_BYTES:
            parts = [data]
            size = len(data)
            while items and size < WRITE_BYTES:
                parts.append(items.popleft())
                size += len(parts[-1])
            data = b"".join(parts)
        self._size -= len(data)
        self._wake_reader()
        return data

    def _keepalive(self) -> bytes:
        self.keepalives += 1
        self.bytes_out += len(self._keepalive_bytes)
        self.begin_write()
        return self._keepalive_bytes

    # One timer looks from time to time, often enough to be in time; a write only notes when it began.

    def _watch(self) -> None:
        self._is_watched = True
        self._deadline.move(self._clock.now() + self._look_again_s)

    @property
    def _look_again_s(self) -> float:
        return (
            min(self._keepalive_s, self._write_timeout_s) if self._sends_keepalives else self._write_timeout_s
        )

    def _due(self) -> float:
        if self._writing:
            return self._write_began_at + self._write_timeout_s
        return self._last_write_at + self._keepalive_s if self._sends_keepalives else NEVER

    def _on_deadline(self) -> None:
        now, due = self._clock.now(), self._due()
        if now >= due and self._writing:
            self._is_watched = False
            self._on_write_timeout()
            return
        if due == NEVER:
            self._is_watched = False
            return
        if now >= due:
            self._wake_writer()  # with an empty queue: keepalive
            due = NEVER
        self._deadline.move(min(due, now + self._look_again_s))

    def _wake_writer(self) -> None:
        if self._item_waiter is not None and not self._item_waiter.done():
            self._item_waiter.set_result(None)

    def _wake_reader(self) -> None:
        if self._space_waiter is not None and not self._space_waiter.done() and not self.is_full:
            self._space_waiter.set_result(None)


def _nothing() -> None:
    pass
