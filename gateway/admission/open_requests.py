"""The open requests of this process: each admitted request, until the store has taken its outcome.

The process keeps what the store keeps: should the store forget (a restart without disk, a flush), or take
the process for dead (it was stopped for a while), everything is written again. Heartbeats and checkpoints run
in tasks of their own; nothing here is on the path of a request but `open` and `close`.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from billing.admission import AdmissionPort, SettledRecord, StoreUnavailable
from billing.admission.store import ADMISSION_HOLDER, HEARTBEAT_INTERVAL_S, Checkpoint, OpenRestore
from billing.terms import Terms
from gateway import metrics
from relay.upstream.aio_tasks import spawn

CHECKPOINT_INTERVAL_S = 2.0
SETTLED_KEPT_MAX = 50_000
"""Settled records kept for a store that forgets. Beyond it the oldest go: workers took them long ago."""
_CHECKED_AT_ONCE = 500
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenRequest:
    """hold_nano: what the store holds for it, at first `first_hold_nano`. record: the encoded open record as
    of the last checkpoint.

    leases: names by holder; "" = of the first candidate; `ADMISSION_HOLDER` = the request's own.
    tokens_taken: of rates by tokens, name → how many were counted at admission.
    """

    request_id: str
    account_id: int
    hold_nano: int
    terms: Terms
    is_stream: bool = False
    is_unheld: bool = False
    """Admitted while the store was away: it hears of it with the next heartbeat."""
    record: bytes = field(default=b"", repr=False)
    leases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tokens_taken: dict[str, int] = field(default_factory=dict)
    first_hold_nano: int = field(init=False)

    def __post_init__(self) -> None:
        self.first_hold_nano = self.hold_nano

    @property
    def restored(self) -> OpenRestore:
        attempts = tuple(
            (holder, name)
            for holder, names in self.leases.items()
            if holder != ADMISSION_HOLDER
            for name in names
        )
        return OpenRestore(
            Checkpoint(self.request_id, self.account_id, self.hold_nano, self.record),
            self.leases.get(ADMISSION_HOLDER, ()),
            attempts,
        )


Progress = Callable[[Iterable[OpenRequest]], Awaitable[Sequence[Checkpoint]]]
"""Those that run and changed, as checkpoints: the record anew, and what should be held from now on."""


class OpenRequests:
    """One per process and loop. on_written_again: called with the new epoch when the store forgot.

    process_id: stays when `epoch` changes.
    """

    def __init__(
        self, port: AdmissionPort, *, on_written_again: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self._port = port
        self._on_written_again = on_written_again
        self._open: dict[str, OpenRequest] = {}
        self._settled: OrderedDict[str, SettledRecord] = OrderedDict()
        self._untaken: list[Checkpoint] = []
        self._boot_id = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_failing = False
        self._is_forgotten = False
        self.epoch = self.process_id = _new_epoch()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, request_id: str) -> OpenRequest | None:
        return self._open.get(request_id)

    def open(self, request: OpenRequest) -> None:
        self._open[request.request_id] = request

    def close(self, request_id: str) -> OpenRequest | None:
        """Its outcome is on its way; None for one that was never admitted (a probe, a test)."""
        return self._open.pop(request_id, None)

    def settled(self, records: Sequence[SettledRecord]) -> None:
        """The store took these."""
        for record in records:
            self._settled[record.request_id] = record
        while len(self._settled) > SETTLED_KEPT_MAX:
            self._settled.popitem(last=False)

    async def start(self, progress: Progress, on_exhausted: Callable[[str], None]) -> None:
        """The first heartbeat, then one every few seconds. A store that is away is no reason not to serve.

        on_exhausted: called with the id of a running request that the balance no longer covers.
        """
        await self._beat()
        self._tasks = {
            spawn(_repeat(self._beat, HEARTBEAT_INTERVAL_S), name="heartbeat"),
            spawn(
                _repeat(lambda: self._checkpoint(progress, on_exhausted), CHECKPOINT_INTERVAL_S),
                name="checkpoints",
            ),
        }

    async def aclose(self) -> None:
        """Ends the tasks; an epoch that holds nothing any more is given up."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not self._open:
            with contextlib.suppress(StoreUnavailable):
                await self._port.leave(self.epoch)

    async def _beat(self) -> None:
        try:
            beat = await self._port.beat(self.epoch)
            if self._boot_id and (beat.was_lost or beat.boot_id != self._boot_id):
                self._is_forgotten = True
            self._boot_id = beat.boot_id
            if self._is_forgotten:
                await self._write_again()
            await self._hold_unheld()
            await self._forget_taken()
        except StoreUnavailable as error:
            self._note_failure(error)
        else:
            self._is_failing = False

    async def _write_again(self) -> None:
        """The store forgot, or holds this process for dead: a new epoch, and all that is known.

        On an error it is still to be done, though the store knows the new epoch from now on.
        """
        metrics.RECORDS_WRITTEN_AGAIN.inc()
        _logger.warning("the admission store lost this process's records; they are written again")
        self.epoch = _new_epoch()
        await self._port.beat(self.epoch)
        await self._restore(list(self._open.values()))
        await self._port.settle(list(self._settled.values()))
        if self._on_written_again is not None:
            await self._on_written_again(self.epoch)
        self._is_forgotten = False

    async def _restore(self, requests: Sequence[OpenRequest]) -> None:
        """One that ended meanwhile may have been settled and even written before its turn came: nobody would
        settle it again.
        """
        await self._port.restore(self.epoch, [request.restored for request in requests])
        for request in requests:
            if request.request_id not in self._open:
                self._port.withdraw(request.request_id)

    async def _hold_unheld(self) -> None:
        unheld = [request for request in self._open.values() if request.is_unheld]
        if unheld:
            await self._restore(unheld)
            for request in unheld:
                request.is_unheld = False

    async def _forget_taken(self) -> None:
        """Settled records that the store holds no more are written, or will come back as repeats."""
        ids = list(self._settled)[:_CHECKED_AT_ONCE]
        known = await asyncio.gather(*(self._port.state(request_id) for request_id in ids))
        for request_id, state in zip(ids, known, strict=True):
            if state is None:
                self._settled.pop(request_id, None)
            else:
                self._settled.move_to_end(request_id)

    async def _checkpoint(self, progress: Progress, on_exhausted: Callable[[str], None]) -> None:
        newer = await progress(list(self._open.values()))
        latest = {one.request_id: one for one in (*self._untaken, *newer)}
        checkpoints = [one for one in latest.values() if one.request_id in self._open]
        self._untaken = []
        if not checkpoints:
            return
        try:
            refused = await self._port.checkpoint(self.epoch, checkpoints)
        except StoreUnavailable as error:
            self._untaken = checkpoints
            self._note_failure(error)
            return
        for checkpoint in checkpoints:
            request = self._open.get(checkpoint.request_id)
            if request is not None and checkpoint.request_id not in refused:
                request.hold_nano = checkpoint.hold_nano
        for request_id in refused:
            on_exhausted(request_id)

    def _note_failure(self, error: StoreUnavailable) -> None:
        if not self._is_failing:
            _logger.warning("the admission store does not answer (%s); running requests go on", error)
        self._is_failing = True


def _new_epoch() -> str:
    return secrets.token_hex(16)


async def _repeat(step: Callable[[], Awaitable[None]], interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await step()
        except Exception as error:  # noqa: BLE001  without heartbeats all that runs here is taken for dead
            kind = type(error).__name__
            _logger.error("a heartbeat or a checkpoint failed in the gateway: %s", kind)  # noqa: TRY400  no message
