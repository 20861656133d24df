"""What an upstream tells of a request's usage afterwards, booked: the difference is an entry of its own.

The entry of the charge stays as it is; request, usage and attempt say what is known now. In the roll-ups the
counts are put right where they were added, the money is added under the correction's time.
"""

import datetime
from dataclasses import dataclass
from uuid import UUID

import msgspec
from django.db import transaction

from billing import metrics
from billing.core.price_book import PriceBook
from billing.core.prices import PriceTerms
from billing.core.pricing import ONE, cost_of
from billing.models import (
    Attempt,
    CostPrice,
    EntryKind,
    LedgerEntry,
    LookupState,
    RelayRequest,
    UsageLookup,
    UsageRecord,
    UsageSource,
)
from billing.selectors.prices import cost_price_row, multiplier_by_id, price_by_id
from billing.services.account_states import account_states_publish
from billing.services.ledger_entries import (
    LATER_USAGE,
    EntryDraft,
    LockedAccounts,
    accounts_lock,
    charge_source,
    correction_source,
    entries_post,
)
from billing.services.outcome_rows import RequestRows, amount_checked, usage_parts
from billing.services.rollups import answering_attempt, rollups_add, share_of, share_of_correction
from relay.core.usage import TokenUsage, merged


@dataclass(frozen=True, slots=True)
class _Correction:
    """before: the rows as they were booked; after: copies of them that say what is known now."""

    before: RequestRows
    after: RequestRows
    attempt: Attempt

    @property
    def difference_nano(self) -> int:
        return (self.after.request.cost_nano or 0) - (self.before.request.cost_nano or 0)


def later_usage_book(*, request_id: UUID, usage: TokenUsage) -> bool:
    """Charges what the upstream tells, once. False: nothing was pending, or somebody refunded the request
    meanwhile, which settled it.

    usage: complete. Errors: those of `django.db`; ValueError for an amount out of range.
    """
    with transaction.atomic():
        lookup = _locked_lookup(request_id)
        if lookup is None:
            return False
        correction = _correction_of(request_id, usage)
        locked = accounts_lock([correction.before.request.tenant_id])
        if LedgerEntry.objects.filter(kind=EntryKind.REFUND, request_id=request_id).exists():
            _end(lookup, LookupState.GIVEN_UP, "refunded")
            return False
        _write(locked, correction)
        _end(lookup, LookupState.DONE, "")
        account_states_publish(locked.states())
    return True


def _locked_lookup(request_id: UUID) -> UsageLookup | None:
    rows = UsageLookup.objects.select_for_update(of=("self",), no_key=True)
    return rows.filter(pk=request_id, state=LookupState.PENDING).first()


def _end(lookup: UsageLookup, state: LookupState, error_class: str) -> None:
    lookup.state, lookup.error_class = state, error_class
    lookup.save(update_fields=["state", "error_class"])
    metrics.USAGE_LOOKUPS.labels(state.value).inc()


def _correction_of(request_id: UUID, told: TokenUsage) -> _Correction:
    before, after = _rows(request_id), _rows(request_id)
    attempt = answering_attempt(after.attempts)
    assert attempt is not None  # noqa: S101  its answer was asked about
    known = merged(TokenUsage(**usage_parts(before.usage)), told)
    request = after.request
    request.cost_nano = amount_checked(_charge_nano(request, known))
    request.estimated = False
    _tell_usage(after.usage, known)
    _tell_attempt(request, attempt, known)
    return _Correction(before, after, attempt)


def _rows(request_id: UUID) -> RequestRows:
    request = RelayRequest.objects.select_for_update(of=("self",), no_key=True).get(pk=request_id)
    attempts = tuple(Attempt.objects.filter(request_id=request_id).order_by("number"))
    return RequestRows(request, attempts, UsageRecord.objects.get(request_id=request_id))


def _charge_nano(request: RelayRequest, usage: TokenUsage) -> int:
    """By the rows it was admitted under, open or closed."""
    price = None if request.price_id is None else price_by_id(request.price_id)
    if price is None:
        raise ValueError("its price is gone")
    multiplier = None if request.multiplier_id is None else multiplier_by_id(request.multiplier_id)
    return cost_of(usage, price, ONE if multiplier is None else multiplier.multiplier).amount_nano


def _tell_usage(record: UsageRecord, usage: TokenUsage) -> None:
    for name, count in msgspec.structs.asdict(usage).items():
        setattr(record, name, count)
    record.source, record.method = UsageSource.REPORTED, LATER_USAGE


def _tell_attempt(request: RelayRequest, attempt: Attempt, usage: TokenUsage) -> None:
    attempt.usage = usage_parts(usage)
    cost_price = _cost_price(attempt, request.started_at)
    if attempt.operator_cost_nano is None or cost_price is None:
        return
    cost_nano = cost_of(usage, cost_price).amount_nano
    request.operator_cost_nano = (request.operator_cost_nano or 0) + cost_nano - attempt.operator_cost_nano
    attempt.operator_cost_nano = cost_nano


def _cost_price(attempt: Attempt, moment: datetime.datetime) -> PriceTerms | None:
    """The one that was open when the request began."""
    rows = CostPrice.objects.filter(channel_id=attempt.channel_id, created_at__lte=moment)
    was_open = [row for row in rows if row.effective_to is None or row.effective_to > moment]
    book = PriceBook(cost_prices=map(cost_price_row, was_open))
    return book.cost_price(attempt.channel_id, attempt.model_sent, moment)


def _write(locked: LockedAccounts, correction: _Correction) -> None:
    after = correction.after
    if correction.difference_nano:
        entries_post(locked, [_draft(correction)])
    after.request.save(update_fields=["cost_nano", "estimated", "operator_cost_nano"])
    after.usage.save(force_update=True)
    correction.attempt.save(update_fields=["usage", "operator_cost_nano"])
    _rollups_correct(correction, locked.moment)


def _draft(correction: _Correction) -> EntryDraft:
    request = correction.after.request
    return EntryDraft(
        tenant_id=request.tenant_id,
        kind=EntryKind.CORRECTION,
        source=correction_source(request.pk, LATER_USAGE),
        amount_nano=-correction.difference_nano,
        request_id=request.pk,
        reason="the upstream told the usage after it was estimated",
    )


def _rollups_correct(correction: _Correction, moment: datetime.datetime) -> None:
    charge = LedgerEntry.objects.get(source=charge_source(correction.before.request.pk))
    shares = [
        share_of(
            rows.request,
            rows.usage,
            rows.attempts,
            moment=charge.created_at,
            charged_nano=-charge.amount_nano,
            sign=sign,
        )
        for rows, sign in ((correction.before, -1), (correction.after, 1))
    ]
    difference_nano = correction.difference_nano
    rollups_add(
        [*shares, share_of_correction(shares[1], moment=moment, charged_nano=difference_nano)], now=moment
    )
