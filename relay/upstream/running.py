"""One relay request while it runs: its attempts, its one end, its one report.

The request has a task of its own. The client's side (view and response) awaits `head`, iterates
`answer.pump`, and tells `client_done`; whoever wants it to end calls `stop`. The first end reason wins,
and is never set without ending what it ends.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from relay.core.end_reasons import CLIENT_SIDE, SUCCESSFUL, EndReason
from relay.core.errors import Refusal, described
from relay.core.estimate import Evidence
from relay.core.failover import Candidate
from relay.core.outcomes import RequestOutcome
from relay.core.refusals import refusal_for_stop
from relay.core.request import RelayRequest
from relay.core.stream_state import DRAIN_BYTES, DRAIN_S, USAGE_WAIT_S
from relay.core.types import Channel, DisconnectPolicy, UpstreamKey
from relay.upstream.aio_tasks import spawn
from relay.upstream.answer import Answer, Head, stream_head
from relay.upstream.attempt import Attempt
from relay.upstream.modes import Mode
from relay.upstream.plan import early_commit_s
from relay.upstream.ports import Timer
from relay.upstream.pump import Pump
from relay.upstream.record import RequestEnd, Tried, evidence_of, request_outcome
from relay.upstream.series import Series
from relay.upstream.transports.contract import CLOSE_TIMEOUT_S

if TYPE_CHECKING:
    from relay.upstream.engine import Engine

logger = logging.getLogger(__name__)

CLIENT_LEFT_STATUS = 499


class RunningRequest:
    __slots__ = (
        "_answer", "_client_consumed", "_client_done", "_client_has_left",
        "_early_commit", "_end_reason", "_engine", "_is_cut", "_is_draining", "_is_over",
        "_is_reported", "_series", "_started_wall", "_status", "on_write_timeout", "request", "task",
    )  # fmt: skip

    def __init__(
        self,
        engine: "Engine",
        request: RelayRequest,
        candidates: Sequence[Candidate],
        first: tuple[Channel, UpstreamKey] | None = None,
    ) -> None:
        self.request = request
        self.task: asyncio.Task[None] | None = None
        self.on_write_timeout: Callable[[], None] = _nothing
        """Set by the response: cuts the connection of a client that does not read."""
        self._engine = engine
        self._answer = Answer(Pump(engine.clock, self._on_write_timeout))
        self._series = Series(engine, request, self._answer, candidates, first)
        self._started_wall = engine.clock.wall()
        self._end_reason: EndReason | None = None
        self._status = CLIENT_LEFT_STATUS
        self._early_commit: Timer | None = None
        self._is_draining = False
        self._is_over = False
        self._is_cut = False
        self._client_has_left = False
        self._client_done = False
        self._client_consumed = False
        self._is_reported = False

    # For the view and the response.

    @property
    def pump(self) -> Pump:
        return self._answer.pump

    @property
    def attempts(self) -> int:
        """How many attempts were begun."""
        return self._series.begun

    @property
    def fallback_model(self) -> str:
        """The model that answers in the stead of the one asked for; "" while none does."""
        attempt = self._series.attempt
        if attempt is None or not attempt.is_committed or attempt.plan.model == self.request.ask.model:
            return ""
        return attempt.plan.model

    @property
    def is_cut(self) -> bool:
        """The answer broke off where nothing can be told in-band: the connection must break off too."""
        return self._is_cut

    def start(self) -> None:
        self._arm_early_commit()
        self.task = spawn(self._run(), name=f"relay-{self.request.id}")

    async def head(self) -> Head:
        """The answer's beginning. Raises Refusal when every attempt failed before the commit point."""
        head = await self._answer.head
        self._status = head.status
        return head

    @property
    def begun_with(self) -> Head | None:
        """The answer's beginning, if there is one."""
        return self._answer.head.result() if self._answer.is_begun else None

    def stop(self, reason: EndReason) -> None:
        """Ends the request. Idempotent; the first reason wins.

        A terminal already seen outranks a client that leaves, and so does an answer in which only the
        usage is outstanding.
        """
        if reason in CLIENT_SIDE:
            self._client_has_left = True
            self._answer.pump.discard()
        if self._end_reason is not None or self._series.stopped_by is not None:
            return
        if reason in CLIENT_SIDE and self._reads_on(reason):
            return
        self._series.stop(reason)

    def client_done(self, *, consumed: bool) -> None:
        """The client's side is over: everything was written (consumed), or the client is gone."""
        if self._client_done:
            return
        self._client_done = True
        self._client_consumed = consumed and not self._client_has_left
        self._answer.pump.close()
        self._report_if_over()

    async def join(self) -> None:
        """Until the request's task is over, or reads on for the usage alone."""
        task = self.task
        if task is None or task.done() or self._is_detached:
            return
        await asyncio.wait({task}, timeout=CLOSE_TIMEOUT_S + 1)

    # The task.

    async def _run(self) -> None:
        try:
            self._conclude(*await self._series.run())
        except asyncio.CancelledError:
            self._conclude(EndReason.GATEWAY_SHUTDOWN)  # the loop is going down between two attempts
            raise
        except Exception as error:  # noqa: BLE001  a bug of ours must still end, tell and record the request
            logger.error("relay request failed in the gateway: %s", described(error))  # noqa: TRY400  no message
            self._conclude(EndReason.GATEWAY_ERROR)
        finally:
            if self._early_commit is not None:
                self._early_commit.cancel()
            if self._is_draining:
                self._engine.give_back_drain()
            self._answer.pump.finish()
            self._is_over = True
            self._report_if_over()

    # The end.

    def _conclude(self, reason: EndReason, refusal: Refusal | None = None) -> None:
        """The one place where a request gets its end reason. refusal: what the client is told, if any."""
        if self._end_reason is not None:
            return
        if self._is_draining or (reason in SUCCESSFUL and self._answer.head.cancelled()):
            # The client left while the answer was on its way to it: it got nothing of it.
            reason = EndReason.CLIENT_DISCONNECTED
        self._end_reason = reason
        if reason in SUCCESSFUL:
            return
        told = refusal or refusal_for_stop(reason)
        if not self._answer.is_begun:
            self._status = CLIENT_LEFT_STATUS if reason in CLIENT_SIDE else told.status
            self._answer.refuse(told)
        elif self._answer.head.result().is_event_stream:
            self._answer.pump.put_now(self.request.dialect.error_event(told, self.request.id))
        else:
            self._is_cut = self._answer.head.result().body is None

    def _report_if_over(self) -> None:
        if not self._is_over or self._is_reported:
            return
        if self._answer.is_begun and not self._client_done:
            return  # what the client got of the answer is not known yet
        self._is_reported = True
        self._answer.pump.close()
        self._engine.running.pop(self.request.id, None)
        self._engine.recorder.report(self._request_outcome(), self._evidence())

    def _request_outcome(self) -> RequestOutcome:
        tried = self._series.tried
        if self._end_reason is EndReason.CLIENT_DISCONNECTED and tried:
            # However the upstream ended: it was read on for the usage only, or for nobody.
            tried[-1].end_reason = EndReason.CLIENT_DISCONNECTED
        end = RequestEnd(
            end_reason=self._end_reason or EndReason.GATEWAY_ERROR,
            head=self.begun_with,
            status=self._status,
            started_wall=self._started_wall,
            ended_at=self._engine.clock.now(),
            client_consumed=self._client_consumed,
        )
        try:
            return request_outcome(self.request, tried, end, self._answer.pump)
        except Exception as error:  # noqa: BLE001  a request without its attempts is better than none
            logger.error("a record could not be made whole: %s", described(error))  # noqa: TRY400  no message
            return request_outcome(self.request, (), end, self._answer.pump)

    def _evidence(self) -> Evidence:
        """Of the attempt that answered, or was tried last."""
        head = self.begun_with
        whole = None if head is None else head.body
        try:
            return evidence_of(self.request, self._series.attempt, whole)
        except Exception as error:  # noqa: BLE001  a request that is not reported would be held for ever
            logger.error("what a request used is not known: %s", described(error))  # noqa: TRY400  no message
            return Evidence(prompt=self.request.body)

    # While it runs.

    @property
    def progress(self) -> tuple[int, int, int]:
        """Changes when there is more to book: attempts begun, attempts ended, bytes of running ones."""
        series = self._series
        return series.begun, len(series.tried), sum(one.attempt.bytes_in for one in series.live)

    def draft(self) -> RequestOutcome:
        """The request as it stands, ending `abandoned`: what is booked should this process die now."""
        end = RequestEnd(
            end_reason=EndReason.ABANDONED,
            head=self.begun_with,
            status=0,
            started_wall=self._started_wall,
            ended_at=self._engine.clock.now(),
            client_consumed=False,
        )
        series = self._series
        running = [Tried(one.attempt, EndReason.ABANDONED) for one in reversed(series.live)]
        return request_outcome(self.request, [*series.tried, *running], end, self._answer.pump)

    @property
    def received_size(self) -> int:
        """Characters of text that the leading attempt, or the last one, has received."""
        attempt = self._series.attempt
        return 0 if attempt is None else attempt.facts.received.size

    # Interruptions.

    def _on_write_timeout(self) -> None:
        self.stop(EndReason.CLIENT_TOO_SLOW)
        self.on_write_timeout()

    @property
    def _is_detached(self) -> bool:
        leading = self._series.leading
        return leading is not None and leading.attempt.is_detached

    def _reads_on(self, reason: EndReason) -> bool:
        """Whether the upstream is read to its end although the client has left."""
        leading = self._series.leading
        attempt = None if leading is None else leading.attempt
        if attempt is None or not attempt.is_open or not attempt.is_committed:
            return False
        if attempt.facts.terminal_seen or attempt.is_detached:
            return True
        now = self._engine.clock.now()
        if attempt.facts.every_choice_finished:
            attempt.state.read_until = now + USAGE_WAIT_S
        elif self._may_drain(attempt, reason):
            self._is_draining = True
            attempt.state.read_until = now + DRAIN_S
            attempt.drain_bytes_left = DRAIN_BYTES
        else:
            return False
        attempt.is_detached = True
        attempt.watch()
        return True

    def _may_drain(self, attempt: Attempt, reason: EndReason) -> bool:
        return (
            reason is EndReason.CLIENT_DISCONNECTED
            and attempt.plan.mode is Mode.STREAM
            and attempt.plan.policy.disconnect_policy is DisconnectPolicy.DRAIN
            and self._engine.take_drain()
        )

    def _arm_early_commit(self) -> None:
        """Proxies that cut at 100 s without a byte: answer early, tell the outcome in-band."""
        channel = self._series.choices.begins_at
        after_s = 0.0 if channel is None else early_commit_s(self.request, channel)
        if after_s > 0:
            self._early_commit = self._engine.clock.call_at(
                self.request.received_at + after_s,
                lambda: self._answer.begin(stream_head([], form=self.request.ask.stream_form)),
            )


def _nothing() -> None:
    pass
