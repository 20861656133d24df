"""Prices, cost prices and multipliers for the configuration snapshot, and single rows of the past."""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from billing.core.price_book import PriceBook
from billing.core.price_json import image_rates_read, tiers_read
from billing.core.prices import (
    PART_NAMES,
    CostPriceRow,
    MultiplierRow,
    PriceParts,
    PriceRow,
    PriceTerms,
)
from billing.models import CostPrice, GroupMultiplier, Price
from billing.models.prices import PriceColumns
from channels_admin.selectors import config_version

ModelT = TypeVar("ModelT", Price, CostPrice, GroupMultiplier)
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class PriceSection:
    """Every open price, cost price and multiplier at one configuration version, by row id.

    book: where they are looked up; the same object as long as the rows are the same.
    """

    version: int
    rows: Mapping[int, PriceRow]
    cost_rows: Mapping[int, CostPriceRow] = field(default_factory=dict)
    multipliers: Mapping[int, MultiplierRow] = field(default_factory=dict)
    book: PriceBook = field(default_factory=PriceBook, compare=False)


def load_prices(previous: PriceSection | None) -> PriceSection:
    """The prices at the committed version; `previous` itself if that is still it.

    Only rows with a newer version are read; all others are the previous section's own objects.
    Errors: ValueError for a row whose tiers or image rates no service has written.
    """
    version = config_version()
    if previous is not None and previous.version == version:
        return previous
    if previous is not None and previous.version > version:  # an older database was put in place
        previous = None
    since = None if previous is None else previous.version
    rows = _newer(Price, since, previous.rows if previous else {}, price_row)
    cost_rows = _newer(CostPrice, since, previous.cost_rows if previous else {}, cost_price_row)
    multipliers = _newer(GroupMultiplier, since, previous.multipliers if previous else {}, multiplier_row)
    if (
        previous is not None
        and rows is previous.rows
        and cost_rows is previous.cost_rows
        and multipliers is previous.multipliers
    ):
        return dataclasses.replace(previous, version=version)
    book = PriceBook(rows.values(), cost_rows.values(), multipliers.values())
    return PriceSection(version, rows, cost_rows, multipliers, book)


def price_by_id(price_id: int) -> PriceRow | None:
    """Open or closed: what a request that was admitted under it pays."""
    row = Price.objects.filter(pk=price_id).first()
    return None if row is None else price_row(row)


def multiplier_by_id(multiplier_id: int) -> MultiplierRow | None:
    """Open or closed."""
    row = GroupMultiplier.objects.filter(pk=multiplier_id).first()
    return None if row is None else multiplier_row(row)


def multiplier_in_force(group: str, now: datetime.datetime) -> MultiplierRow | None:
    """For pages; requests ask the snapshot's book. None = 1."""
    rows = GroupMultiplier.objects.filter(group=group, is_closed=False, effective_from__lte=now)
    row = rows.order_by("-effective_from").first()
    return None if row is None else multiplier_row(row)


def price_terms(row: PriceColumns) -> PriceTerms:
    return PriceTerms(
        parts=_parts(row), tiers=tiers_read(row.tiers), image_rates=image_rates_read(row.image_rates)
    )


def price_row(row: Price) -> PriceRow:
    return PriceRow(
        id=row.pk,
        model=row.model,
        group=row.group,
        effective_from=row.effective_from,
        parts=_parts(row),
        tiers=tiers_read(row.tiers),
        image_rates=image_rates_read(row.image_rates),
    )


def cost_price_row(row: CostPrice) -> CostPriceRow:
    return CostPriceRow(
        id=row.pk,
        channel_id=row.channel_id,
        model=row.model,
        effective_from=row.effective_from,
        parts=_parts(row),
        tiers=tiers_read(row.tiers),
        image_rates=image_rates_read(row.image_rates),
    )


def multiplier_row(row: GroupMultiplier) -> MultiplierRow:
    return MultiplierRow(
        id=row.pk, group=row.group, effective_from=row.effective_from, multiplier=row.multiplier
    )


def _newer(
    model: type[ModelT], since: int | None, known: Mapping[int, RowT], made: Callable[[ModelT], RowT]
) -> Mapping[int, RowT]:
    """`known` itself if nothing was changed after version `since`; None = all is read."""
    if since is None:
        return {row.pk: made(row) for row in model.objects.filter(is_closed=False).order_by("pk")}
    # A row committed after the version was read may be in already; the next load brings it once more.
    changed = list(model.objects.filter(version__gt=since).order_by("pk"))
    if not changed:
        return known
    gone = {row.pk for row in changed}
    kept = {pk: row for pk, row in known.items() if pk not in gone}
    return kept | {row.pk: made(row) for row in changed if not row.is_closed}


def _parts(row: PriceColumns) -> PriceParts:
    return PriceParts(**{name: getattr(row, name) for name in PART_NAMES})
