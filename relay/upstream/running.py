"""One relay request while it runs: its attempts, its one end, its one report.

The request has a task of its own. The client's side (view and response) awaits `head`, iterates
`answer.pump`, and tells `client_done`; whoever wants it to end calls `stop`. The first end reason wins,
and is never set without ending what it ends.
"""

import asyncio
import datetime
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from relay.core.end_reasons import CLIENT_SIDE, SUCCESSFUL, EndReason
from relay.core.errors import AttemptFailed, Refusal, described
from relay.core.estimate import Evidence
from relay.core.outcomes import RequestOutcome
from relay.core.refusals import refusal_for_stop
from relay.core.request import RelayRequest
from relay.core.retry import final_refusal, starts_another_attempt
from relay.core.scrubbing import scrub_failure
from relay.core.selection import claims
from relay.core.stream_state import DRAIN_BYTES, DRAIN_S, EARLY_COMMIT_FORCED_S, USAGE_WAIT_S
from relay.core.types import Channel, DisconnectPolicy, StreamMode
from relay.upstream.aio_tasks import spawn
from relay.upstream.answer import Answer, Head, stream_head
from relay.upstream.attempt import Attempt
from relay.upstream.choices import Choice, choices
from relay.upstream.plan import Mode, make_plan, mode_of, upstream_host
from relay.upstream.ports import Timer
from relay.upstream.pump import Pump
from relay.upstream.readings import READINGS
from relay.upstream.record import RequestEnd, Tried, evidence_of, request_outcome
from relay.upstream.transports.contract import CLOSE_TIMEOUT_S

if TYPE_CHECKING:
    from relay.upstream.engine import Engine

logger = logging.getLogger(__name__)

CLIENT_LEFT_STATUS = 499


class RunningRequest:
    __slots__ = (
        "_answer", "_attempt", "_candidates", "_client_consumed", "_client_done",
        "_client_has_left", "_early_commit", "_end_reason", "_engine", "_is_cut", "_is_draining",
        "_is_over", "_is_reported", "_started_wall", "_status", "_stop_reason", "_tried",
        "on_write_timeout", "request", "task",
    )  # fmt: skip

    def __init__(self, engine: "Engine", request: RelayRequest, candidates: Sequence[Channel]) -> None:
        self.request = request
        self.task: asyncio.Task[None] | None = None
        self.on_write_timeout: Callable[[], None] = _nothing
        """Set by the response: cuts the connection of a client that does not read."""
        self._engine = engine
        self._candidates = candidates
        self._answer = Answer(Pump(engine.clock, self._on_write_timeout))
        self._started_wall = engine.clock.wall()
        self._tried: list[Tried] = []
        self._attempt: Attempt | None = None
        self._stop_reason: EndReason | None = None
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
        return len(self._tried) + (self._attempt is not None)

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

    def stop(self, reason: EndReason) -> None:
        """Ends the request. Idempotent; the first reason wins.

        A terminal already seen outranks a client that leaves, and so does an answer in which only the
        usage is outstanding.
        """
        if reason in CLIENT_SIDE:
            self._client_has_left = True
            self._answer.pump.discard()
        if self._end_reason is not None or self._stop_reason is not None:
            return
        if reason in CLIENT_SIDE and self._reads_on(reason):
            return
        self._stop_reason = reason
        if self.task is not None and self._attempt is not None and self._attempt.is_open:
            self._attempt.is_open = False  # one cancellation an attempt, never into its clean-up
            self.task.cancel()

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
            await self._try_candidates()
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

    async def _try_candidates(self) -> None:
        failures: list[AttemptFailed] = []
        for choice in self._choices():
            if self._stop_reason is not None:
                break
            end = await self._try(choice)
            if isinstance(end, EndReason):
                self._conclude(end)
                return
            failures.append(end)
            if self._attempt_was_committed and not end.message:
                end.message = "The upstream's answer broke off."
            if self._attempt_was_committed or not self._may_go_on(end, choice.channel):
                break
        if self._stop_reason is not None:
            self._conclude(self._stop_reason)
            return
        now = datetime.datetime.fromtimestamp(self._engine.clock.wall(), datetime.UTC)
        reason = failures[-1].reason if failures else EndReason.GATEWAY_ERROR
        self._conclude(reason, final_refusal(failures, now=now))

    def _choices(self) -> Iterator[Choice]:
        engine = self._engine
        return choices(
            self.request,
            self._candidates,
            control=engine.control,
            clock=engine.clock,
            chance=engine.chance,
            next_key_turn=engine.next_key_turn,
        )

    async def _try(self, choice: Choice) -> EndReason | AttemptFailed:
        engine = self._engine
        flags = engine.control.flags()
        plan = make_plan(
            self.request,
            choice.channel,
            choice.key,
            flags,
            number=len(self._tried) + 1,
            decision=choice.decision,
        )
        attempt = self._attempt = Attempt(
            plan,
            self.request,
            self._answer,
            transport=engine.transport,
            clock=engine.clock,
            interrupt=self._interrupt,
            max_event_bytes=engine.max_event_bytes,
        )
        end = await self._outcome_of(attempt)
        self._attempt = None
        if isinstance(end, AttemptFailed):
            host = upstream_host(choice.channel.base_url).partition(":")[0]
            scrub_failure(end, tuple(filter(None, (attempt.revealed, host))))
            self._tried.append(Tried(attempt, end.reason, end.error_class))
        else:
            self._tried.append(Tried(attempt, end))
        return end

    async def _outcome_of(self, attempt: Attempt) -> EndReason | AttemptFailed:
        """How the attempt ended, whoever ended it."""
        try:
            return await attempt.run(READINGS[attempt.plan.mode])
        except AttemptFailed as failure:
            return failure
        except Exception as error:  # noqa: BLE001  a bug of ours ends this attempt, and is recorded as its end
            logger.error("an attempt failed in the gateway: %s", described(error))  # noqa: TRY400  no message
            return EndReason.GATEWAY_ERROR
        except asyncio.CancelledError:
            if self._stop_reason is None and attempt.expired is None:
                self._stop_reason = EndReason.GATEWAY_SHUTDOWN  # the loop is going down: not our cancel
            elif self.task is not None:
                self.task.uncancel()
        if attempt.is_committed and attempt.facts.terminal_seen:
            return EndReason.COMPLETED
        if self._stop_reason is not None:
            return self._stop_reason
        return self._expiry_of(attempt)

    @staticmethod
    def _expiry_of(attempt: Attempt) -> EndReason | AttemptFailed:
        assert attempt.expired is not None  # noqa: S101  the caller has seen the cancellation's cause
        if attempt.expired is EndReason.COMPLETED_WITHOUT_TERMINAL:
            try:
                return attempt.end_quietly()
            except AttemptFailed as failure:
                return failure
        if attempt.expired is EndReason.CLIENT_DISCONNECTED:
            return attempt.expired
        if attempt.expired is EndReason.UPSTREAM_REJECTED and attempt.rejection is not None:
            return attempt.rejection
        return AttemptFailed(attempt.expired, error_class="timeout")

    @property
    def _attempt_was_committed(self) -> bool:
        return bool(self._tried) and self._tried[-1].attempt.is_committed

    def _may_go_on(self, failure: AttemptFailed, channel: Channel) -> bool:
        tried = self._tried[-1]
        if self._stop_reason is not None:
            tried.what_next = "stopped"
        elif not self.request.is_replayable:
            tried.what_next = "not replayable"
        elif not starts_another_attempt(failure, claimed=claims(channel, self.request.ask.model)):
            tried.what_next = "not retried for this failure"
        else:
            tried.what_next = "next channel, if any"
            return True
        return False

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
        if self._end_reason is EndReason.CLIENT_DISCONNECTED and self._tried:
            # However the upstream ended: it was read on for the usage only, or for nobody.
            self._tried[-1].end_reason = EndReason.CLIENT_DISCONNECTED
        end = RequestEnd(
            end_reason=self._end_reason or EndReason.GATEWAY_ERROR,
            head=self._answer.head.result() if self._answer.is_begun else None,
            status=self._status,
            started_wall=self._started_wall,
            ended_at=self._engine.clock.now(),
            client_consumed=self._client_consumed,
        )
        try:
            return request_outcome(self.request, self._tried, end, self._answer.pump)
        except Exception as error:  # noqa: BLE001  a request without its attempts is better than none
            logger.error("a record could not be made whole: %s", described(error))  # noqa: TRY400  no message
            return request_outcome(self.request, (), end, self._answer.pump)

    def _evidence(self) -> Evidence:
        """Of the attempt that answered, or was tried last."""
        attempt = self._attempt or (self._tried[-1].attempt if self._tried else None)
        return evidence_of(self.request, attempt)

    # While it runs.

    @property
    def progress(self) -> tuple[int, int, int]:
        """Changes when there is more to book: attempts begun, attempts ended, bytes of the running one."""
        return self.attempts, len(self._tried), 0 if self._attempt is None else self._attempt.bytes_in

    def draft(self) -> RequestOutcome:
        """The request as it stands, ending `abandoned`: what is booked should this process die now."""
        end = RequestEnd(
            end_reason=EndReason.ABANDONED,
            head=self._answer.head.result() if self._answer.is_begun else None,
            status=0,
            started_wall=self._started_wall,
            ended_at=self._engine.clock.now(),
            client_consumed=False,
        )
        running = [] if self._attempt is None else [Tried(self._attempt, EndReason.ABANDONED)]
        return request_outcome(self.request, [*self._tried, *running], end, self._answer.pump)

    @property
    def received_size(self) -> int:
        """Characters of text that the running attempt, or the last one, has received."""
        attempt = self._attempt or (self._tried[-1].attempt if self._tried else None)
        return 0 if attempt is None else attempt.facts.received.size

    # Interruptions.

    def _interrupt(self) -> None:
        """A timer of the running attempt has expired."""
        if self.task is not None and self._attempt is not None and self._attempt.is_open:
            self._attempt.is_open = False
            self.task.cancel()

    def _on_write_timeout(self) -> None:
        self.stop(EndReason.CLIENT_TOO_SLOW)
        self.on_write_timeout()

    @property
    def _is_detached(self) -> bool:
        return self._attempt is not None and self._attempt.is_detached

    def _reads_on(self, reason: EndReason) -> bool:
        """Whether the upstream is read to its end although the client has left."""
        attempt = self._attempt
        if attempt is None or not attempt.is_open or not attempt.is_committed:
            return False
        if attempt.facts.terminal_seen:
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
            and attempt.plan.channel.policy.disconnect_policy is DisconnectPolicy.DRAIN
            and self._engine.take_drain()
        )

    def _arm_early_commit(self) -> None:
        """Proxies that cut at 100 s without a byte: answer early, tell the outcome in-band."""
        after_s = self._early_commit_s()
        if after_s > 0:
            self._early_commit = self._engine.clock.call_at(
                self.request.received_at + after_s, lambda: self._answer.begin(stream_head([]))
            )

    def _early_commit_s(self) -> float:
        if not self._candidates or not self.request.ask.stream:
            return 0.0
        channel = self._candidates[0]
        mode = mode_of(self.request, channel)
        if not mode.answers_with_stream:
            return 0.0
        if channel.policy.early_commit_s is not None:
            return channel.policy.early_commit_s
        is_forced = channel.policy.stream_policy is StreamMode.FORCE_NON_STREAM
        return EARLY_COMMIT_FORCED_S if is_forced else 0.0


def _nothing() -> None:
    pass
