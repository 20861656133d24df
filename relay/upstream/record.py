"""What is recorded of a relay request when it is over, put together from what its attempts kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from relay.core.end_reasons import SUCCESSFUL, EndReason
from relay.core.errors import AttemptFailed
from relay.core.estimate import Evidence, answer_text
from relay.core.headers import clean_client_request_id
from relay.core.limits_asked import output_limit
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.request import RelayRequest
from relay.upstream.answer import Head
from relay.upstream.attempt import Attempt
from relay.upstream.modes import Mode
from relay.upstream.plan import upstream_host
from relay.upstream.pump import Pump


@dataclass(slots=True, eq=False)
class Tried:
    """An attempt that is over, how it ended, and what was decided then. failure: where it ended by one."""

    attempt: Attempt
    end_reason: EndReason
    failure: AttemptFailed | None = None
    what_next: str = ""

    @property
    def error_class(self) -> str:
        return "" if self.failure is None else self.failure.error_class


class RequestEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the request as a whole ended. head: None when no answer was begun. ended_at: monotonic seconds.

    started_wall: seconds since the epoch. status: what the client was told instead of a head.
    """

    end_reason: EndReason
    head: Head | None
    status: int
    started_wall: float
    ended_at: float
    client_consumed: bool


def request_outcome(
    request: RelayRequest, tried: Sequence[Tried], end: RequestEnd, pump: Pump
) -> RequestOutcome:
    """tried: the attempt that decided how the request ended comes last."""
    last = tried[-1].attempt if tried else None
    whole_body = end.head.body if end.head is not None else None
    whole_bytes = len(whole_body) if whole_body is not None and end.client_consumed else 0
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
        end_reason=end.end_reason,
        status=end.head.status if end.head is not None else end.status,
        started_at=end.started_wall,
        duration_ms=_ms(end.ended_at, request.received_at) or 0.0,
        first_event_ms=_ms(last.marks.first_event_at, request.received_at) if last is not None else None,
        client_request_id=request.client_request_id,
        request_bytes=len(request.body),
        response_bytes=pump.bytes_out + whole_bytes,
        message_count=request.ask.message_count,
        tool_count=request.ask.tool_count,
        model_served=last.plan.model if last is not None else request.ask.model,
        usage=last.usage if last is not None and last.is_committed else None,
        attempts=tuple(_attempt_outcome(one, pump, end) for one in sorted(tried, key=_number)),
    )


def draft_outcome(request: RelayRequest, started_wall: float) -> RequestOutcome:
    """A request that has not begun: what is booked should its process die before anything else is known."""
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
        model_answered="",
        stream_asked=request.ask.stream,
        end_reason=EndReason.ABANDONED,
        status=0,
        started_at=started_wall,
        duration_ms=0.0,
        client_request_id=request.client_request_id,
        request_bytes=len(request.body),
        message_count=request.ask.message_count,
        tool_count=request.ask.tool_count,
    )


def evidence_of(request: RelayRequest, attempt: Attempt | None, whole: bytes | None) -> Evidence:
    """What the usage of a request can be estimated from, should its upstream not report any.

    whole: the body of a whole answer.
    """
    if attempt is None:
        return Evidence(prompt=request.body)
    received = attempt.facts.received
    text, size = received.text, received.size
    if not size and whole and not (attempt.usage and attempt.usage.is_complete):
        text = answer_text(whole)
        size = len(text)
    return Evidence(
        prompt=request.body,
        received=text,
        received_size=size,
        output_limit=output_limit(request.ask.fields),
    )


def _attempt_outcome(tried: Tried, pump: Pump, end: RequestEnd) -> AttemptOutcome:
    attempt, plan = tried.attempt, tried.attempt.plan
    marks, facts, usage = attempt.marks, attempt.facts, attempt.usage
    began = marks.started_at
    stream_asked = attempt.request.ask.stream
    finish_reasons = tuple(facts.finish_reasons[index] for index in sorted(facts.finish_reasons))
    last_event_at = attempt.state.last_event_at
    connected_at = attempt.trace.connected_at
    return AttemptOutcome(
        number=plan.number,
        channel_id=plan.channel.id,
        channel_name=plan.channel.name,
        upstream_key_id=plan.key.id,
        upstream_host=upstream_host(plan.channel.base_url),
        model_sent=plan.model_sent,
        stream_asked=stream_asked,
        stream_sent=plan.mode.asks_for_stream or (plan.mode is Mode.RAW and stream_asked),
        end_reason=tried.end_reason,
        decision=f"{plan.decision}; {tried.what_next}" if tried.what_next else plan.decision,
        error_class=tried.error_class,
        status=attempt.response_status or None,
        upstream_request_id=attempt.headers.request_id,
        answer_id=clean_client_request_id(facts.answer_id),
        started_at=marks.started_wall,
        connect_ms=_ms(connected_at, began),
        header_ms=_ms(marks.headers_at, began),
        first_byte_ms=_ms(marks.first_byte_at, began),
        first_event_ms=_ms(marks.first_event_at, began),
        last_event_at=None if last_event_at is None else marks.started_wall + last_event_at - began,
        duration_ms=_ms(marks.ended_at, began) or 0.0,
        events=attempt.events,
        bytes=attempt.bytes_in,
        keepalives=pump.keepalives if attempt.is_committed else 0,
        finish_reasons=finish_reasons or attempt.finish_reasons,
        soft_error_count=facts.soft_error_count,
        soft_errors=tuple(facts.soft_errors),
        terminal_seen=facts.terminal_seen,
        committed=attempt.is_committed,
        upstream_connected=connected_at is not None,
        stream_processed=attempt.is_processed,
        stream_finished=tried.end_reason in SUCCESSFUL,
        usage_complete=usage is not None and usage.is_complete,
        client_consumed=end.client_consumed and attempt.is_committed,
        usage=usage,
        possible_duplicate_charge=plan.possible_duplicate_charge,
        is_hedge=plan.is_hedge,
    )


def _number(tried: Tried) -> int:
    return tried.attempt.plan.number


def _ms(at: float | None, since: float) -> float | None:
    return None if at is None else (at - since) * 1000
