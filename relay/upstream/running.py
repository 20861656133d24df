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
from relay.core.outcomes import RequestOutcome
from relay.core.request import RelayRequest
from relay.core.retry import final_refusal, starts_another_attempt
from relay.core.scrubbing import scrub_failure
from relay.core.selection import claims, pick_key
from relay.core.stream_state import DRAIN_BYTES, DRAIN_S, EARLY_COMMIT_FORCED_S, USAGE_WAIT_S
from relay.core.types import Channel, DisconnectPolicy, StreamMode, UpstreamKey
from relay.upstream.aio_tasks import spawn
from relay.upstream.answer import Answer, Head, stream_head
from relay.upstream.attempt import Attempt
from relay.upstream.plan import Mode, make_plan, mode_of, upstream_host
from relay.upstream.ports import Timer
from relay.upstream.pump import Pump
from relay.upstream.readings import READINGS
from relay.upstream.transport import CLOSE_TIMEOUT_S

if TYPE_CHECKING:
    from relay.upstream.engine import Engine

logger = logging.getLogger(__name__)

CLIENT_LEFT_STATUS = 499


def _refusal_for(reason: EndReason) -> Refusal:
    """What the client is told when not the upstream but one of us ended its request."""
    match reason:
        case EndReason.BALANCE_EXHAUSTED:
            kind = "insufficient_quota"
            return Refusal(402, "The balance is used up.", kind=kind, code=kind)
        case EndReason.REVOKED:
            kind = "authentication_error"
            return Refusal(401, "The API key was revoked.", kind=kind, code="api_key_revoked")
        case EndReason.STOPPED_BY_OPERATOR:
            return Refusal(503, "An operator stopped the request.", kind="api_error", code=reason.value)
        case EndReason.GATEWAY_SHUTDOWN:
            message = "The gateway is shutting down."
            return Refusal(503, message, kind="api_error", code=reason.value, retry_after_s=1)
        case _:
            return Refusal(500, "The gateway failed.", kind="api_error", code="gateway_error")


class _Tried:
    """An attempt that is over, and what was decided then."""

    __slots__ = ("attempt", "end_reason", "error_class", "what_next")

    def __init__(self, attempt: Attempt, end_reason: EndReason, error_class: str = "") -> None:
        self.attempt = attempt
        self.end_reason = end_reason
        self.error_class = error_class
        self.what_next = ""


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
        self._tried: list[_Tried] = []
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
        for channel, key, decision in self._choices():
            tried = await self._try(channel, key, decision)
            if isinstance(tried, EndReason):
                self._conclude(tried)
                return
            failures.append(tried)
            if self._attempt_was_committed or not self._may_go_on(tried, channel):
                break
        if self._stop_reason is not None:
            self._conclude(self._stop_reason)
        elif failures:
            now = datetime.datetime.fromtimestamp(self._engine.clock.wall(), datetime.UTC)
            self._conclude(failures[-1].reason, final_refusal(failures, now=now))
        else:
            self._conclude(EndReason.GATEWAY_ERROR)

    def _choices(self) -> Iterator[tuple[Channel, UpstreamKey, str]]:
        """Channels in order, each once, as long as flags and budget allow a further attempt."""
        control = self._engine.control
        began = self._engine.clock.now()
        offered = 0
        for channel in self._candidates:
            if self._stop_reason is not None:
                return
            flags = control.flags()
            key = pick_key(channel, self._engine.next_key_turn(channel), self._engine.chance)
            if offered > 0:
                if offered > flags.retry_times:
                    return
                over_budget = self._engine.clock.now() - began >= flags.retry_budget_s
                if over_budget and not self.request.is_image:
                    return
            if not control.is_usable(channel, key):
                continue
            offered += 1
            place = "first choice" if offered == 1 else f"choice {offered}"
            yield channel, key, f"{place}: priority {channel.priority}, weight {channel.weight}"

    async def _try(self, channel: Channel, key: UpstreamKey, decision: str) -> EndReason | AttemptFailed:
        engine = self._engine
        number = len(self._tried) + 1
        plan = make_plan(self.request, channel, key, engine.control.flags(), number=number, decision=decision)
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
            # No failure of an attempt comes before its credential was unsealed.
            scrub_failure(end, (key.secret.reveal(), upstream_host(channel.base_url).partition(":")[0]))
            self._tried.append(_Tried(attempt, end.reason, end.error_class))
        else:
            self._tried.append(_Tried(attempt, end))
        return end

    async def _outcome_of(self, attempt: Attempt) -> EndReason | AttemptFailed:
        """How the attempt ended, whoever ended it."""
        try:
            return await attempt.run(READINGS[attempt.plan.mode])
        except AttemptFailed as failure:
            return failure
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
        return AttemptFailed(attempt.expired, status=attempt.response_status, error_class="timeout")

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
        if self._is_draining:
            reason = EndReason.CLIENT_DISCONNECTED
        self._end_reason = reason
        if reason in SUCCESSFUL:
            return
        told = refusal or _refusal_for(reason)
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
        self._engine.recorder.report(self._request_outcome())

    def _request_outcome(self) -> RequestOutcome:
        request, pump = self.request, self._answer.pump
        attempts = tuple(
            tried.attempt.outcome(
                tried.end_reason if tried is not self._tried[-1] else self._last_reason(tried),
                error_class=tried.error_class,
                what_next=tried.what_next,
                keepalives=pump.keepalives,
                client_consumed=self._client_consumed,
            )
            for tried in self._tried
        )
        last = self._tried[-1].attempt if self._tried else None
        head = self._answer.head.result() if self._answer.is_begun else None
        whole_bytes = len(head.body) if head is not None and head.body is not None else 0
        return RequestOutcome(
            request_id=request.id,
            tenant_id=request.caller.tenant_id,
            api_key_id=request.caller.api_key_id,
            group=request.caller.group,
            method=request.method,
            path=request.path,
            family=request.family,
            dialect=request.dialect.name,
            model_asked=request.ask.model,
            model_answered=last.facts.model if last is not None else "",
            stream_asked=request.ask.stream,
            end_reason=self._end_reason or EndReason.GATEWAY_ERROR,
            status=head.status if head is not None else self._status,
            started_at=self._started_wall,
            duration_ms=round((self._engine.clock.now() - request.received_at) * 1000, 3),
            first_event_ms=self._first_event_ms(last),
            client_request_id=request.client_request_id,
            request_bytes=len(request.body),
            response_bytes=pump.bytes_out + (whole_bytes if self._client_consumed else 0),
            message_count=request.ask.message_count,
            tool_count=request.ask.tool_count,
            usage=last.usage if last is not None and last.is_committed else None,
            attempts=attempts,
        )

    def _last_reason(self, tried: _Tried) -> EndReason:
        return self._end_reason if self._is_draining and self._end_reason else tried.end_reason

    def _first_event_ms(self, last: Attempt | None) -> float | None:
        at = last.first_event_at if last is not None else None
        return None if at is None else round((at - self.request.received_at) * 1000, 3)

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
