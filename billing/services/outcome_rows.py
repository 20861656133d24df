"""`Settlement` and `OpenRecord` → unsaved rows. Foreign text is bounded: it cannot fail an insert.

Pure but for the model classes: no query.
"""

import datetime
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import models

from billing.admission.open_record import OpenRecord, Settlement
from billing.models import Attempt, RelayRequest, RequestState, UsageRecord, UsageSource
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage

_AMOUNT_MAX_NANO = 10**15
"""A million USD for one request is a mistake, which a person should see (as a dead outcome)."""
_NO_COSTS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class RequestRows:
    """All rows of one relay request. `request.cost_nano` is what it is charged, nano-dollars."""

    request: RelayRequest
    attempts: tuple[Attempt, ...]
    usage: UsageRecord


def rows_of(record: Settlement | OpenRecord) -> RequestRows:
    """Errors: ValueError when the id is no UUID, a time cannot be one, or the amount is out of range."""
    return _settled_rows(record) if isinstance(record, Settlement) else _abandoned_rows(record)


def _settled_rows(settlement: Settlement) -> RequestRows:
    outcome, costs = settlement.outcome, settlement.operator_costs_nano
    row = request_row(outcome)
    row.operator_cost_nano = sum(costs.values()) if costs else None
    _price(row, settlement)
    usage = usage_row(row.pk, outcome.usage, settlement.usage_source, settlement.usage_method)
    row.estimated = usage.source == UsageSource.ESTIMATED
    attempts = tuple(attempt_row(row.pk, attempt, costs) for attempt in outcome.attempts)
    return RequestRows(row, attempts, usage)


def _abandoned_rows(record: OpenRecord) -> RequestRows:
    """As of the last checkpoint: the process that ran it is gone."""
    row = request_row(record.draft)
    row.state = RequestState.ABANDONED
    row.estimated = record.is_estimated
    _price(row, record)
    source = UsageSource.ESTIMATED if record.is_estimated else UsageSource.REPORTED
    usage = usage_row(row.pk, record.draft.usage, source, record.usage_method)
    return RequestRows(row, tuple(attempt_row(row.pk, one) for one in record.draft.attempts), usage)


def _price(row: RelayRequest, record: Settlement | OpenRecord) -> None:
    row.cost_nano = amount_checked(record.amount_nano)
    row.price_id = record.price_id
    row.multiplier_id = record.multiplier_id


def amount_checked(amount_nano: int) -> int:
    """What one request is charged. Errors: ValueError."""
    if not 0 <= amount_nano <= _AMOUNT_MAX_NANO:
        raise ValueError("a charge out of range")
    return amount_nano


def request_row(outcome: RequestOutcome) -> RelayRequest:
    """Errors: ValueError when the id is no UUID or a time cannot be one."""
    return RelayRequest(
        id=UUID(outcome.request_id),
        tenant_id=outcome.tenant_id,
        api_key_id=outcome.api_key_id,
        stream_asked=outcome.stream_asked,
        status=outcome.status,
        started_at=_moment(outcome.started_at),
        duration_ms=round(outcome.duration_ms, 3),
        first_event_ms=_rounded(outcome.first_event_ms),
        request_bytes=outcome.request_bytes,
        response_bytes=outcome.response_bytes,
        message_count=outcome.message_count,
        tool_count=outcome.tool_count,
        possible_duplicates=sum(attempt.possible_duplicate_charge for attempt in outcome.attempts),
        **_texts(
            RelayRequest,
            group=outcome.group,
            client_request_id=outcome.client_request_id,
            method=outcome.method,
            path=outcome.path,
            family=outcome.family,
            dialect=outcome.dialect,
            model_asked=outcome.model_asked,
            model_served=outcome.model_served,
            model_answered=outcome.model_answered,
            end_reason=outcome.end_reason,
        ),
    )


def attempt_row(
    request_id: UUID, attempt: AttemptOutcome, costs_nano: Mapping[int, int] = _NO_COSTS
) -> Attempt:
    """costs_nano: what attempts cost the operator, by their number."""
    return Attempt(
        request_id=request_id,
        number=attempt.number,
        channel_id=attempt.channel_id,
        upstream_key_id=attempt.upstream_key_id,
        stream_asked=attempt.stream_asked,
        stream_sent=attempt.stream_sent,
        status=attempt.status,
        started_at=_moment(attempt.started_at) if attempt.started_at else None,
        connect_ms=_rounded(attempt.connect_ms),
        header_ms=_rounded(attempt.header_ms),
        first_byte_ms=_rounded(attempt.first_byte_ms),
        first_event_ms=_rounded(attempt.first_event_ms),
        last_event_at=_moment(attempt.last_event_at) if attempt.last_event_at else None,
        duration_ms=round(attempt.duration_ms, 3),
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
        operator_cost_nano=costs_nano.get(attempt.number),
        **_texts(
            Attempt,
            channel_name=attempt.channel_name,
            upstream_host=attempt.upstream_host,
            model_sent=attempt.model_sent,
            end_reason=attempt.end_reason,
            decision=attempt.decision,
            error_class=attempt.error_class,
            upstream_request_id=attempt.upstream_request_id,
            answer_id=attempt.answer_id,
        ),
    )


def usage_row(request_id: UUID, usage: TokenUsage | None, source: str, method: str = "") -> UsageRecord:
    """One row even for nothing: a request without usage says so itself."""
    if usage is None:
        return UsageRecord(request_id=request_id, source=UsageSource.NONE)
    return UsageRecord(
        request_id=request_id, source=source, **usage_parts(usage), **_texts(UsageRecord, method=method)
    )


def usage_parts(usage: TokenUsage | UsageRecord) -> dict[str, int | None]:
    """Part → count; the columns of UsageRecord have the names of the parts."""
    return {name: getattr(usage, name) for name in TokenUsage.__struct_fields__}


def _moment(seconds: float) -> datetime.datetime:
    """Seconds since the epoch → aware time. Errors: ValueError."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except OverflowError as error:
        raise ValueError("a time out of range") from error


def _rounded(milliseconds: float | None) -> float | None:
    """To a microsecond: here, as the gateway has better things to do."""
    return None if milliseconds is None else round(milliseconds, 3)


def _texts(model: type[models.Model], **texts: str) -> dict[str, str]:
    """Each text printable and no longer than its column."""
    return {name: _printable(text)[: _length(model, name)] for name, text in texts.items()}


@functools.cache
def _length(model: type[models.Model], name: str) -> int | None:
    column = model._meta.get_field(name)  # noqa: SLF001  Django documents it as public
    return getattr(column, "max_length", None)


def _printable(text: str) -> str:
    """PostgreSQL refuses NUL in text."""
    return str(text).replace("\x00", "")
