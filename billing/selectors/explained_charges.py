"""Why a request cost what it cost: the formula with its numbers, worked out anew from the rows.

The price and multiplier rows are those it was admitted under, which never change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.core.exceptions import ObjectDoesNotExist

from billing.core.prices import MultiplierRow, PriceRow
from billing.core.pricing import ONE, Cost, cost_of
from billing.models import EntryKind, LedgerEntry, RelayRequest, UsageSource
from billing.selectors.prices import multiplier_by_id, price_by_id
from billing.services.ledger_entries import charge_sources
from billing.services.outcome_rows import usage_parts
from relay.core.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class ExplainedCharge:
    """charged_nano: as it was booked, None = not yet. cost: None where no price was in force, or where
    nothing was answered and so nothing is charged. is_same: what is worked out anew is what was charged.
    """

    charged_nano: int | None
    price: PriceRow | None
    multiplier: MultiplierRow | None
    is_answered: bool
    cost: Cost | None
    is_same: bool


def explained_charge(row: RelayRequest) -> ExplainedCharge:
    """A handful of look-ups by key."""
    price = price_by_id(row.price_id) if row.price_id is not None else None
    multiplier = multiplier_by_id(row.multiplier_id) if row.multiplier_id is not None else None
    usage = _usage(row)
    is_answered = row.attempts.filter(committed=True).exists()
    cost = None
    if price is not None and (usage is not None or is_answered):
        factor = ONE if multiplier is None else multiplier.multiplier
        cost = _cost_charged(usage, price, factor, row.cost_nano)
    worked_out = 0 if cost is None else cost.amount_nano
    is_same = row.cost_nano is None or row.cost_nano == worked_out
    return ExplainedCharge(row.cost_nano, price, multiplier, is_answered, cost, is_same)


def entries_of(row: RelayRequest) -> list[LedgerEntry]:
    """The charge, its corrections and refunds, in the order of the ledger."""
    entries = LedgerEntry.objects.filter(source__in=charge_sources(row.pk))
    refunds = LedgerEntry.objects.filter(kind=EntryKind.REFUND, request_id=row.pk)
    return sorted((*entries, *refunds), key=lambda entry: entry.account_seq)


def _usage(row: RelayRequest) -> TokenUsage | None:
    try:
        usage = row.usage
    except ObjectDoesNotExist:
        return None
    if usage.source == UsageSource.NONE:
        return None
    return TokenUsage(**usage_parts(usage))


def _cost_charged(
    usage: TokenUsage | None, price: PriceRow, factor: Decimal, charged_nano: int | None
) -> Cost:
    """Size and quality of pictures are not recorded: the rate is found that gives what was charged."""
    costs = [cost_of(usage, price, factor, size=size, quality=quality) for size, quality in _asked(price)]
    return next((cost for cost in costs if cost.amount_nano == charged_nano), costs[0])


def _asked(price: PriceRow) -> Iterator[tuple[str, str]]:
    yield "", ""
    for rate in price.pictures:
        size, _slash, quality = rate.partition("/")
        yield size, quality
