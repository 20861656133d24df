"""One relay request as its tenant may see it: never a channel, an upstream host or an upstream key."""

import datetime
from dataclasses import dataclass
from uuid import UUID

from billing.admission import RecordState
from billing.models import Attempt, RelayRequest, UsageRecord, UsageSource
from billing.outcome_codec import UnreadableOutcome, outcome_decode
from billing.services.outcome_rows import attempt_row, request_row, usage_parts, usage_row
from relay.core.usage import TokenUsage

SETTLED = "settled"


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

    usage: None when nothing was reported. cost_nano: nano-dollars; None = not charged yet.
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


def settled_view(tenant_id: int, record: RecordState | None) -> RequestView | None:
    """From the store, before the row exists. None: nothing there, unreadable, or another tenant's."""
    if record is None:
        return None
    try:
        outcome = outcome_decode(record.payload)
        row = request_row(outcome)
        attempts = [attempt_row(row.pk, attempt) for attempt in outcome.attempts]
    except (UnreadableOutcome, ValueError):
        return None
    if outcome.tenant_id != tenant_id:
        return None
    return _view(row, attempts, usage_row(row.pk, outcome.usage), SETTLED)


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
