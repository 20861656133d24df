"""One relay request as its tenant may see it: never a channel, an upstream host or an upstream key."""

import datetime
from dataclasses import dataclass
from uuid import UUID

from billing.admission import OpenState, RecordState
from billing.models import Attempt, RelayRequest, UsageRecord, UsageSource
from billing.outcome_codec import UnreadableOutcome, open_record_decode, settlement_decode
from billing.services.outcome_rows import rows_of, usage_parts
from relay.core.usage import TokenUsage

RUNNING = "running"
SETTLED = "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningView:
    """A request that is not over: nothing else is certain yet."""

    id: str
    object: str = "relay.request"
    state: str = RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """Times are milliseconds from the attempt's start."""

    number: int
    end_reason: str
    status: int | None
    started_at: datetime.datetime | None
    connect_ms: float | None
    header_ms: float | None
    first_byte_ms: float | None
    first_event_ms: float | None
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """state: "settled" (its row is still to be written), "final" or "abandoned".

    usage: None when nothing was reported. cost_nano: what is charged, nano-dollars, known from "settled" on;
    None = not charged. estimated: it rests on counted text.
    """

    id: str
    state: str
    path: str
    model: str
    status: int
    end_reason: str
    started_at: datetime.datetime
    duration_ms: float
    first_event_ms: float | None
    attempts: tuple[AttemptView, ...]
    usage: TokenUsage | None
    usage_source: str
    cost_nano: int | None
    estimated: bool


def request_view(tenant_id: int, request_id: str) -> RequestView | None:
    """From the database. None: no such request, or another tenant's; the two look the same."""
    key = _uuid(request_id)
    if key is None:
        return None
    row = (
        RelayRequest.objects.select_related("usage")
        .prefetch_related("attempts")
        .filter(pk=key, tenant_id=tenant_id)
        .first()
    )
    if row is None:
        return None
    attempts = sorted(row.attempts.all(), key=lambda attempt: attempt.number)
    return _view(row, attempts, getattr(row, "usage", None), row.state)


def open_view(tenant_id: int, record: RecordState | None) -> RequestView | RunningView | None:
    """From the store, before the row exists. None: nothing there, unreadable, or another tenant's."""
    try:
        if record is None:
            return None
        if record.state is OpenState.RUNNING:
            return _running(tenant_id, record)
        return _settled(tenant_id, record)
    except (UnreadableOutcome, ValueError):
        return None


def _running(tenant_id: int, record: RecordState) -> RunningView | None:
    draft = open_record_decode(record.payload).draft
    return RunningView(id=draft.request_id) if draft.tenant_id == tenant_id else None


def _settled(tenant_id: int, record: RecordState) -> RequestView | None:
    settlement = settlement_decode(record.payload)
    if settlement.outcome.tenant_id != tenant_id:
        return None
    rows = rows_of(settlement)
    return _view(rows.request, list(rows.attempts), rows.usage, SETTLED)


def _view(row: RelayRequest, attempts: list[Attempt], usage: UsageRecord | None, state: str) -> RequestView:
    return RequestView(
        id=str(row.pk),
        state=state,
        path=row.path,
        model=row.model_asked,
        status=row.status,
        end_reason=row.end_reason,
        started_at=row.started_at,
        duration_ms=row.duration_ms,
        first_event_ms=row.first_event_ms,
        attempts=tuple(_attempt_view(attempt) for attempt in attempts),
        usage=_usage_view(usage),
        usage_source=usage.source if usage else UsageSource.NONE,
        cost_nano=row.cost_nano,
        estimated=row.estimated,
    )


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        end_reason=attempt.end_reason,
        status=attempt.status,
        started_at=attempt.started_at,
        connect_ms=attempt.connect_ms,
        header_ms=attempt.header_ms,
        first_byte_ms=attempt.first_byte_ms,
        first_event_ms=attempt.first_event_ms,
        duration_ms=attempt.duration_ms,
    )


def _usage_view(usage: UsageRecord | None) -> TokenUsage | None:
    if usage is None or usage.source == UsageSource.NONE:
        return None
    return TokenUsage(**usage_parts(usage))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
