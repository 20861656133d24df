"""The one task of a process that talks to Redis for the gateway: all calls that wait go as one batch.

A caller waits for a future and never touches the connection: whoever cancels him cancels no command, and
no reply can reach the wrong caller. The layers forbid the relay's task helper here, hence the task is kept
in an attribute and joined in `aclose`.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from billing.admission.redis.breaker import Breaker
from billing.admission.redis.connection import Argument, Exchange
from billing.admission.redis.scripts import Script
from billing.admission.store import StoreUnavailable
from billing.metrics import POSTED_CALLS_FAILED, STORE_FAILURES

BATCH_MAX = 256
FLUSH_TIMEOUT_S = 1.0
RETRY_S = 1.0
"""Until a call that nobody waits for is sent again after its script failed."""
LOGGED_EVERY_S = 60.0
"""At most one line in this time for each type of error of calls that nobody waits for."""

_logger = logging.getLogger(__name__)


class NotSent(StoreUnavailable):
    """The breaker is open, or the port was closed first: what was asked has surely not happened."""


@dataclass(slots=True, eq=False)
class _Call:
    """future: None for a call that nobody waits for; it is sent until the store takes it."""

    script: Script
    arguments: tuple[Argument, ...]
    future: asyncio.Future[Any] | None = None

    def fail(self, kind: type[StoreUnavailable], text: str) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(kind(text))


class StoreTask:
    """connect: makes an exchange, which connects when it is used. clock: seconds, monotonic.
    batch_max: calls sent at once.

    Methods are called on the loop that uses the task; on another loop it begins anew.
    """

    def __init__(
        self,
        connect: Callable[[], Exchange],
        clock: Callable[[], float] = time.monotonic,
        *,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._connect = connect
        self._batch_max = batch_max
        self._clock = clock
        self._breaker = Breaker()
        self._queue: deque[_Call] = deque()
        self._later: list[_Call] = []
        self._later_at = 0.0
        self._logged_at: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake, self._idle = asyncio.Event(), asyncio.Event()

    @property
    def unsent(self) -> int:
        """Calls that wait for their batch; those that nobody waits for may do so for long."""
        return len(self._queue) + len(self._later)

    async def call(self, script: Script, *arguments: Argument) -> Any:
        """The script's reply. Errors: StoreUnavailable (NotSent: it has surely not happened)."""
        if not self._breaker.allows(self._clock()):
            raise NotSent("away")
        future: asyncio.Future[Any] = self._begin().create_future()
        self._queue.append(_Call(script, arguments, future))
        self._wake.set()
        return await future

    def post(self, script: Script, *arguments: Argument) -> None:
        """Sent in its turn, and again until the store took it: it must bear to be repeated."""
        self._begin()
        self._queue.append(_Call(script, arguments))
        self._wake.set()

    async def aclose(self) -> None:
        """Send what waits, unless the store is away; end task and connection."""
        task, self._task = self._task, None
        if task is None or self._loop is not asyncio.get_running_loop():
            return
        try:
            await self._flush()
        finally:
            task.cancel()
            await asyncio.wait({task})
            self._abandon()

    def _begin(self) -> asyncio.AbstractEventLoop:
        """The running loop, with a task on it."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Whoever waited on the loop before is gone with it; what was posted still goes out.
            self._queue = deque(call for call in self._queue if call.future is None)
            self._loop, self._task = loop, None
            self._wake, self._idle = asyncio.Event(), asyncio.Event()
        if self._task is None:
            self._task = loop.create_task(self._run(), name="admission-store")
        return loop

    async def _flush(self) -> None:
        self._later_at = 0.0
        self._idle.clear()
        self._wake.set()
        if self._breaker.is_open:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await self._idle.wait()

    def _abandon(self) -> None:
        """The port closes with calls that the store did not take."""
        left = [*self._queue, *self._later]
        self._queue.clear()
        self._later.clear()
        if left:
            _logger.error("admission port closed with %d calls that the store did not take", len(left))
        _fail(left, NotSent, "closed")

    async def _run(self) -> None:
        exchange = self._connect()
        try:
            while True:
                self._take_up_later()
                if self._may_send():
                    await self._turn(exchange)
                else:
                    await self._rest()
        finally:
            await exchange.aclose()

    def _may_send(self) -> bool:
        """While the breaker is open a caller brings the probe with him; posted calls have to take it."""
        if not self._queue:
            return False
        if not self._breaker.is_open or any(call.future is not None for call in self._queue):
            return True
        return self._breaker.allows(self._clock())

    async def _rest(self) -> None:
        """Until there is something to send, or a time to send it has come."""
        now = self._clock()
        waits = [self._breaker.wait_s(now)] if self._queue else []
        if self._later:
            waits.append(self._later_at - now)
        self._wake.clear()
        if not waits:
            self._idle.set()
            await self._wake.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(min(waits), 0.001)):
                await self._wake.wait()

    def _take_up_later(self) -> None:
        if self._later and self._clock() >= self._later_at:
            self._queue.extend(self._later)
            self._later.clear()

    async def _turn(self, exchange: Exchange) -> None:
        """One batch, whatever comes of it."""
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._batch_max))]
        try:
            replies = await exchange.exchange([(call.script, call.arguments) for call in batch])
        except asyncio.CancelledError:
            self._return(batch, "closed")
            raise
        except Exception as error:  # noqa: BLE001  a task that died of a surprise would end every admission
            self._return(batch, type(error).__name__)
            self._note_failure(error)
            return
        self._note_replies(replies)
        for call, reply in zip(batch, replies, strict=True):
            self._answer(call, reply)

    def _answer(self, call: _Call, reply: Any) -> None:
        if isinstance(reply, RedisError):
            call.fail(StoreUnavailable, type(reply).__name__)
            if call.future is None:
                self._later.append(call)
                self._later_at = self._clock() + RETRY_S
                self._note_posted_failure(type(reply).__name__)
        elif call.future is not None and not call.future.done():
            call.future.set_result(reply)

    def _note_posted_failure(self, error_name: str) -> None:
        POSTED_CALLS_FAILED.inc()
        now = self._clock()
        if now - self._logged_at.get(error_name, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._logged_at[error_name] = now
            _logger.error("the admission store refuses queued calls (%s); they are sent again", error_name)

    def _return(self, batch: Sequence[_Call], reason: str) -> None:
        """What nobody waits for goes first in the next batch."""
        self._queue.extendleft(reversed([call for call in batch if call.future is None]))
        _fail(batch, StoreUnavailable, reason)

    def _note_replies(self, replies: Sequence[Any]) -> None:
        errors = [reply for reply in replies if isinstance(reply, RedisError)]
        if errors and len(errors) == len(replies):
            self._note_failure(errors[0])
            return
        if self._breaker.is_open:
            _logger.warning("admission store is back")
        self._breaker.succeeded()

    def _note_failure(self, error: Exception) -> None:
        STORE_FAILURES.inc()
        was_open = self._breaker.is_open
        self._breaker.failed(self._clock())
        if not self._breaker.is_open:
            return
        if not was_open:
            _logger.warning(
                "admission store is away (%s); asked once a second from now on", type(error).__name__
            )
        waiting = [call for call in self._queue if call.future is not None]
        self._queue = deque(call for call in self._queue if call.future is None)
        _fail(waiting, NotSent, "away")


def _fail(calls: Sequence[_Call], kind: type[StoreUnavailable], text: str) -> None:
    for call in calls:
        call.fail(kind, text)
