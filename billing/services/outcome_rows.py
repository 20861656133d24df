"""`RequestOutcome` → unsaved rows. Foreign text is bounded here, so that it cannot fail an insert.

Pure but for the model classes: no query.
"""

import datetime
from uuid import UUID

from django.db import models

from billing.models import Attempt, RelayRequest, UsageRecord, UsageSource
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage


def request_row(outcome: RequestOutcome) -> RelayRequest:
    """Errors: ValueError when the id is no UUID or a time cannot be one."""
    return RelayRequest(
        id=UUID(outcome.request_id),
        tenant_id=outcome.tenant_id,
        api_key_id=outcome.api_key_id,
        stream_asked=outcome.stream_asked,
        status=outcome.status,
        started_at=_moment(outcome.started_at),
        duration_ms=outcome.duration_ms,
        first_event_ms=outcome.first_event_ms,
        request_bytes=outcome.request_bytes,
        response_bytes=outcome.response_bytes,
        message_count=outcome.message_count,
        tool_count=outcome.tool_count,
        **_texts(
            RelayRequest,
            group=outcome.group,
            client_request_id=outcome.client_request_id,
            method=outcome.method,
            path=outcome.path,
            family=outcome.family,
            dialect=outcome.dialect,
            model_asked=outcome.model_asked,
            model_answered=outcome.model_answered,
            end_reason=outcome.end_reason,
        ),
    )


def attempt_row(request_id: UUID, attempt: AttemptOutcome) -> Attempt:
    return Attempt(
        request_id=request_id,
        number=attempt.number,
        channel_id=attempt.channel_id,
        upstream_key_id=attempt.upstream_key_id,
        stream_asked=attempt.stream_asked,
        stream_sent=attempt.stream_sent,
        status=attempt.status,
        started_at=_moment(attempt.started_at) if attempt.started_at else None,
        connect_ms=attempt.connect_ms,
        header_ms=attempt.header_ms,
        first_byte_ms=attempt.first_byte_ms,
        first_event_ms=attempt.first_event_ms,
        last_event_at=_moment(attempt.last_event_at) if attempt.last_event_at else None,
        duration_ms=attempt.duration_ms,
        events=attempt.events,
        bytes=attempt.bytes,
        keepalives=attempt.keepalives,
        finish_reasons=[_printable(reason)[:64] for reason in attempt.finish_reasons],
        soft_error_count=attempt.soft_error_count,
        soft_errors=[
            {"error_class": _printable(soft.error_class)[:200], "offset": soft.offset}
            for soft in attempt.soft_errors
        ],
        terminal_seen=attempt.terminal_seen,
        committed=attempt.committed,
        upstream_connected=attempt.upstream_connected,
        stream_processed=attempt.stream_processed,
        stream_finished=attempt.stream_finished,
        usage_complete=attempt.usage_complete,
        client_consumed=attempt.client_consumed,
        usage=None if attempt.usage is None else usage_parts(attempt.usage),
        possible_duplicate_charge=attempt.possible_duplicate_charge,
        is_hedge=attempt.is_hedge,
        **_texts(
            Attempt,
            channel_name=attempt.channel_name,
            upstream_host=attempt.upstream_host,
            model_sent=attempt.model_sent,
            end_reason=attempt.end_reason,
            decision=attempt.decision,
            error_class=attempt.error_class,
            upstream_request_id=attempt.upstream_request_id,
        ),
    )


def usage_row(request_id: UUID, usage: TokenUsage | None) -> UsageRecord:
    """One row even for nothing: a request without usage says so itself."""
    if usage is None:
        return UsageRecord(request_id=request_id, source=UsageSource.NONE)
    return UsageRecord(request_id=request_id, source=UsageSource.REPORTED, **usage_parts(usage))


def usage_parts(usage: TokenUsage | UsageRecord) -> dict[str, int | None]:
    """Part → count; the columns of UsageRecord have the names of the parts."""
    return {name: getattr(usage, name) for name in TokenUsage.__struct_fields__}


def _moment(seconds: float) -> datetime.datetime:
    """Seconds since the epoch → aware time. Errors: ValueError."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except OverflowError as error:
        raise ValueError("a time out of range") from error


def _texts(model: type[models.Model], **texts: str) -> dict[str, str]:
    """Each text printable and no longer than its column."""
    bounded: dict[str, str] = {}
    for name, text in texts.items():
        column = model._meta.get_field(name)  # noqa: SLF001  Django documents it as public
        bounded[name] = _printable(text)[: getattr(column, "max_length", None)]
    return bounded


def _printable(text: str) -> str:
    """PostgreSQL refuses NUL in text."""
    return str(text).replace("\x00", "")
