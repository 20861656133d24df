"""Carries outcomes from the runtime to the admission store, and wakes the workers.

`report` only appends to a queue. A task of the loop hands over at most one batch every 50 ms; whatever
the store refuses stays here and is tried again: nothing is dropped, `is_full` tells the gateway to
refuse new requests long before memory is short. Celery is touched by the nudger's thread alone.

Must not import: models, relay.upstream. The layers forbid its task helper here, hence the courier keeps
its own task in an attribute and joins it in `aclose`.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from django.conf import settings

from billing.admission import AdmissionPort, OpenState, RecordState, SettledRecord, admission_port
from billing.core.charging import quick_count
from billing.metrics import REPORTS_LATE, SETTLE_FAILURES, UNDELIVERED
from billing.nudger import Nudger
from billing.spool import spool_write
from billing.valuation import Reported, settled_at_once, settled_record

BATCH_MAX = 500
BATCH_INTERVAL_S = 0.05
QUEUE_BOUND = 20_000
_FULL_SHARE = 0.8
_BACKOFF_MAX_S = 2.0

_logger = logging.getLogger(__name__)


class Courier:
    """One per process and loop. All methods are called on that loop."""

    def __init__(
        self,
        *,
        port: AdmissionPort | None = None,
        nudger: Nudger | None = None,
        queue_bound: int = QUEUE_BOUND,
        on_settled: Callable[[Sequence[SettledRecord]], None] | None = None,
    ) -> None:
        self._port = port or admission_port()
        self._nudger = nudger or Nudger.from_settings()
        self._full_at = int(queue_bound * _FULL_SHARE)
        self._queue: deque[Reported] = deque()
        self._on_settled = on_settled
        self._batch: list[SettledRecord] = []
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Outcomes the store has not taken yet."""
        return len(self._queue) + len(self._batch)

    @property
    def is_full(self) -> bool:
        """New requests should be refused (503): the store has been away for too long."""
        return self.pending >= self._full_at

    def undelivered(self, request_id: str) -> RecordState | None:
        """The outcome of a request while it waits here. Looks through all that wait: not for the hot path."""
        for record in self._batch:
            if record.request_id == request_id:
                return RecordState(OpenState.SETTLED, record.payload)
        for reported in self._queue:
            if reported.outcome.request_id == request_id:
                return RecordState(OpenState.SETTLED, settled_record(reported, count=quick_count).payload)
        return None

    def report(self, reported: Reported) -> None:
        """Queue one final outcome. Some microseconds, never raises, never drops."""
        self._queue.append(reported)
        self._wake.set()
        if self._closing.is_set():
            REPORTS_LATE.inc()
            _logger.error("an outcome was reported after the courier began to close")

    async def start(self) -> None:
        self._nudger.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="courier")

    async def aclose(self, timeout_s: float = 10.0) -> None:
        """Hand over what is queued, let the workers know, end task and thread; at most `timeout_s`.

        What the store did not take by then is counted and logged, and stays in `pending`. That, and what
        would end with an in-process store, is spooled for the next start.
        """
        deadline = time.monotonic() + timeout_s
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            # The thread gets a part of the time for its last nudge, whatever the store does.
            await asyncio.wait({self._task}, timeout=timeout_s * 0.7)
            await _end_task(self._task)
            await self._end_thread(deadline - time.monotonic())
        if self.pending:
            UNDELIVERED.inc(self.pending)
            _logger.error("courier closed with %d outcomes that the store did not take", self.pending)
        await self._spool()

    async def _spool(self) -> None:
        # Tokens of thousands of answers would take longer than the process is given to end.
        queued = [settled_record(reported, count=quick_count) for reported in self._queue]
        left = [*self._port.held(), *self._batch, *queued]
        if not left:
            return
        try:
            path = await asyncio.to_thread(spool_write, settings.DATA_DIR, left)
        except OSError as error:
            kind = type(error).__name__
            _logger.error("%d outcomes are lost: they could not be spooled (%s)", len(left), kind)  # noqa: TRY400  one line, as all here
            return
        _logger.error("%d outcomes were not recorded; they wait in %s for the next start", len(left), path)

    async def _run(self) -> None:
        while self._queue or self._batch or not self._closing.is_set():
            if not self._queue and not self._batch:
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._deliver()
            await self._pause()

    async def _deliver(self) -> None:
        try:
            await self._value()
            await self._port.settle(self._batch)
        except Exception as error:  # noqa: BLE001  a courier that died of a surprise would lose every outcome
            self._note_failure(error)
            return
        settled, self._batch = self._batch, []
        self._nudger.nudge()
        if self._failures:
            _logger.warning("admission store is back after %d failures", self._failures)
            self._failures = 0
        self._tell(settled)

    def _tell(self, settled: Sequence[SettledRecord]) -> None:
        try:
            if self._on_settled is not None:
                self._on_settled(settled)
        except Exception as error:  # noqa: BLE001  it would end the courier, and with it every later outcome
            kind = type(error).__name__
            _logger.error("what follows a settlement failed in the gateway: %s", kind)  # noqa: TRY400  no message

    async def _value(self) -> None:
        """From the queue to the batch, each with its price. Nothing leaves the queue before it is there."""
        due = list(itertools.islice(self._queue, BATCH_MAX - len(self._batch)))
        records = [settled_at_once(reported) for reported in due]
        if None in records:
            self._batch += await asyncio.to_thread(_completed, records, due)
        else:
            self._batch += [record for record in records if record is not None]
        for _ in due:
            self._queue.popleft()

    def _note_failure(self, error: Exception) -> None:
        SETTLE_FAILURES.inc()
        self._failures += 1
        if self._failures == 1:
            kind = type(error.__cause__ or error).__name__
            _logger.warning("admission store took no batch (%s); outcomes wait and are tried again", kind)

    async def _pause(self) -> None:
        """Until the next batch may go. Closing cuts the wait short unless the store is failing."""
        if self._closing.is_set():
            await asyncio.sleep(BATCH_INTERVAL_S if self._failures else 0)
            return
        delay = min(BATCH_INTERVAL_S * 2 ** min(self._failures, 10), _BACKOFF_MAX_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._closing.wait()

    async def _end_thread(self, timeout_s: float) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed when the thread hung for too long
                loop.call_soon_threadsafe(ended.set)

        self._nudger.stop(tell)
        try:
            async with asyncio.timeout(max(timeout_s, 0.1)):
                await ended.wait()
        except TimeoutError:
            _logger.warning("the courier's thread hangs; it is left behind")
            return
        self._nudger.join(1.0)


def _completed(records: Sequence[SettledRecord | None], due: Sequence[Reported]) -> list[SettledRecord]:
    """With those of which tokens must be counted: takes long, for a thread."""
    return [record or settled_record(reported) for record, reported in zip(records, due, strict=True)]


async def _end_task(task: asyncio.Task[None]) -> None:
    """Cancelled when it did not come to its end; joined in any case."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("the courier's task failed: %s", type(error).__name__)
