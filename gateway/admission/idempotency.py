"""A repeated `Idempotency-Key` is answered from the first one's answer, and is not run twice.

    once ─ key taken ─→ run ─→ ended ─→ settled ─→ kept        another with the same key and question:
         └ somebody has it: wait, answer again, or refuse      waits here, holding nothing

The outcome is settled first and the answer kept after it: nothing is given out again that was not booked.
Whoever waits is woken at once where the first one runs in this process, and asks the store from time to time
where it does not. Off (flag `IDEMPOTENT_ANSWERS`): every request just runs.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.http.response import HttpResponseBase

from billing.admission import SettledRecord, StoreUnavailable
from billing.admission.idempotency import IdempotencyPort, Mark, Marker, MarkState
from gateway import metrics
from gateway.admission.refusals import key_in_use, key_reused, not_replayable, store_unavailable
from gateway.admission.stored_answers import AnswerCopy, StoredAnswer, answered_again, seal, unseal
from gateway.front.sending import encoded_headers
from gateway.responses import RelayAnswer
from relay.core.end_reasons import SUCCESSFUL, EndReason
from relay.core.errors import Refusal
from relay.core.fingerprint import fingerprint
from relay.core.outcomes import RequestOutcome
from relay.core.path_families import is_read, is_replayable
from relay.core.refusals import refusal_for_stop
from relay.core.request import RelayRequest
from relay.upstream.aio_tasks import spawn
from relay.upstream.answer import Head

WAIT_MAX_S = 60.0
WAITING_MAX = 2_000
"""Per process: whoever waits keeps his request in memory."""
ASK_AGAIN_S = 0.5
ASK_AGAIN_LOCAL_S = 5.0
"""Where the first one runs in this process, its end wakes those who wait."""
UNKEPT_BYTES_MAX = 64 * 1024 * 1024
"""Of answers whose outcomes the store has not taken yet; beyond it answers are not kept."""
_INLINE_BYTES = 256 * 1024
"""Hashed on the loop: a fraction of a millisecond."""

Run = Callable[[], Awaitable[HttpResponseBase]]


@dataclass(slots=True)
class _Line:
    """Those who wait for one request. answer: set before `over`, if there is one to give out."""

    waiting: int = 0
    answer: StoredAnswer | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Turn:
    """A request that has its key. copy: None until its answer has begun. is_ended: with success."""

    marker: Marker
    copy: AnswerCopy | None = None
    is_ended: bool = False


class Idempotency:
    """One per process and loop. epoch: the process's at this moment; is_on: the flag; is_running: whether
    the engine knows a request, whose outcome will then come to `ended`.
    """

    def __init__(
        self,
        port: IdempotencyPort,
        *,
        epoch: Callable[[], str],
        is_on: Callable[[], bool],
        is_running: Callable[[str], bool],
    ) -> None:
        self._port = port
        self._epoch = epoch
        self._is_on = is_on
        self._is_running = is_running
        self._turns: dict[str, _Turn] = {}
        self._unkept: dict[str, _Turn] = {}
        self._unkept_bytes = 0
        self._lines: dict[str, _Line] = {}
        self._is_closing = False
        self._keeping: set[asyncio.Task[None]] = set()
        self.waiting = 0
        """Requests that wait for another one with their key."""

    async def once(self, request: RelayRequest, run: Run) -> HttpResponseBase:
        """What `run` gives, or gave another request with the same key. run: admits, starts, answers.

        Raises Refusal 409, 503, and whatever `run` raises.
        """
        key = request.upstream_idempotency_key
        if key is None or is_read(request.method) or not self._is_on():
            return await run()
        marker = Marker(key, await _fingerprint(request), request.id)
        try:
            mark = await self._port.begin(self._epoch(), marker)
        except StoreUnavailable as error:
            if _may_run_twice(request):
                return await run()
            raise store_unavailable() from error
        answer = await self._others_answer(marker, mark)
        if answer is None:
            return await self._run(_Turn(marker), run)
        metrics.IDEMPOTENT_REPEATS.labels("replayed").inc()
        return answered_again(answer)

    async def _run(self, turn: _Turn, run: Run) -> HttpResponseBase:
        request_id = turn.marker.request_id
        self._turns[request_id] = turn
        try:
            response = await run()
        except BaseException:
            if not self._is_running(request_id):
                self._give_back(self._turns.pop(request_id, None))
            raise
        if isinstance(response, RelayAnswer):
            added = tuple(encoded_headers(response.items()))
            turn.copy = response.copy_to = AnswerCopy(response.head, added)
        return response

    def missed(self, request_id: str, head: Head) -> None:
        """The client left in the moment in which its answer began: a whole one is kept all the same."""
        turn = self._turns.get(request_id)
        if turn is not None:
            turn.copy = AnswerCopy(head, ())

    # What came of it.

    def ended(self, outcome: RequestOutcome) -> None:
        """Called once for every relay request, before its outcome goes to be settled."""
        turn = self._turns.pop(outcome.request_id, None)
        if turn is None:
            return
        if outcome.end_reason not in SUCCESSFUL or outcome.status >= 400:
            self._give_back(turn)
            return
        turn.is_ended = True
        self._port.ended(self._epoch(), turn.marker)
        self._unkept[outcome.request_id] = turn
        self._weigh(turn)

    def settled(self, records: Sequence[SettledRecord]) -> None:
        """The store took these: their answers may be given out again."""
        if not self._unkept:
            return
        for record in records:
            turn = self._unkept.pop(record.request_id, None)
            if turn is not None:
                task = spawn(self._keep(turn), name="idempotent-answer")
                self._keeping.add(task)
                task.add_done_callback(self._keeping.discard)

    async def _keep(self, turn: _Turn) -> None:
        marker, copy = turn.marker, turn.copy
        answer = None if copy is None else copy.answer(marker)
        self._unkept_bytes -= 0 if copy is None else copy.size
        try:
            if answer is None:
                self._port.finish(marker)
            else:
                await self._port.keep(marker, await seal(answer))
        except BaseException as error:
            self._port.finish(marker)
            if not isinstance(error, StoreUnavailable):
                raise
        finally:
            self._wake(marker.request_id, answer)

    def _weigh(self, turn: _Turn) -> None:
        if turn.copy is None:
            return
        if self._unkept_bytes + turn.copy.size > UNKEPT_BYTES_MAX:
            turn.copy.drop()
        self._unkept_bytes += turn.copy.size

    def _give_back(self, turn: _Turn | None) -> None:
        """It failed, or never began: the next one runs."""
        if turn is not None:
            self._port.release(turn.marker)
            self._wake(turn.marker.request_id, None)

    # The others.

    async def _others_answer(self, marker: Marker, mark: Mark) -> StoredAnswer | None:
        """None: nobody has succeeded, and the key is this request's. Raises Refusal 409, 503."""
        deadline = asyncio.get_running_loop().time() + WAIT_MAX_S
        while mark.state is MarkState.RUNNING:
            answer = await self._wait(mark.request_id, deadline)
            if answer is not None:
                return answer
            with contextlib.suppress(StoreUnavailable):  # the first one still runs, as far as is known
                mark = await self._port.begin(self._epoch(), marker)
        if mark.state is MarkState.MINE:
            return None
        if mark.state is MarkState.OTHER:
            raise _counted(key_reused(mark.request_id))
        return await self._stored(marker, mark)

    async def _stored(self, marker: Marker, mark: Mark) -> StoredAnswer:
        sealed = None
        if mark.state is MarkState.ANSWERED:
            try:
                sealed = await self._port.answer(mark.request_id)
            except StoreUnavailable as error:
                raise store_unavailable() from error
        answer = None if sealed is None else await unseal(sealed, mark.request_id, marker.key)
        if answer is None:
            raise _counted(not_replayable(mark.request_id))
        return answer

    async def _wait(self, runner: str, deadline: float) -> StoredAnswer | None:
        """Until it is over or it is time to ask again. Raises Refusal 409 when the time is up, 503."""
        now = asyncio.get_running_loop().time()
        if now >= deadline or self.waiting >= WAITING_MAX:
            raise _counted(key_in_use(runner))
        line = self._lines.setdefault(runner, _Line())
        line.waiting += 1
        self.waiting += 1
        again_s = ASK_AGAIN_LOCAL_S if runner in self._turns or runner in self._unkept else ASK_AGAIN_S
        try:
            async with asyncio.timeout_at(min(deadline, now + again_s)):
                await line.over.wait()
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1
            line.waiting -= 1
            if not line.waiting and self._lines.get(runner) is line:
                del self._lines[runner]
        if self._is_closing:
            raise refusal_for_stop(EndReason.GATEWAY_SHUTDOWN)
        return line.answer

    def _wake(self, request_id: str, answer: StoredAnswer | None) -> None:
        line = self._lines.pop(request_id, None)
        if line is not None:
            line.answer = answer
            line.over.set()

    # The process.

    async def write_again(self, epoch: str) -> None:
        """For a store that forgot, or held this process for dead. Errors: StoreUnavailable."""
        turns = (*self._turns.values(), *self._unkept.values())
        await self._port.restore(epoch, [turn.marker for turn in turns])
        for turn in turns:  # they were written as running ones
            if turn.is_ended:
                self._port.ended(epoch, turn.marker)
                if turn.marker.request_id not in self._unkept:
                    self._port.finish(turn.marker)  # its answer came before its marker was back

    def stop_waiting(self) -> None:
        """The process ends: nobody begins any more."""
        self._is_closing = True
        for request_id in list(self._lines):
            self._wake(request_id, None)

    async def aclose(self) -> None:
        """Answers that are on their way to the store arrive. Called when the last outcome was settled."""
        self.stop_waiting()
        if self._keeping:
            await asyncio.wait(self._keeping)


async def _fingerprint(request: RelayRequest) -> str:
    secret = hashlib.sha256(b"idempotency fingerprint\0" + settings.SECRET_KEY.encode()).digest()
    target = f"{request.path}?{request.query}"
    asked = (secret, request.method, target, request.body, _content_type(request.headers))
    if len(request.body) <= _INLINE_BYTES:
        return fingerprint(*asked)
    return await asyncio.to_thread(fingerprint, *asked)


def _content_type(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == b"content-type"), "")


def _may_run_twice(request: RelayRequest) -> bool:
    """Whether the gateway itself would repeat it without a key."""
    is_artefact = request.route is not None and request.route.is_artefact
    return is_replayable(request.family, request.method, idempotency_key=None, artefact=is_artefact)


def _counted(refusal: Refusal) -> Refusal:
    metrics.IDEMPOTENT_REPEATS.labels(refusal.code or "").inc()
    return refusal
