"""Prices for the configuration snapshot and the model list."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from billing.core.prices import PriceParts, PriceRow
from billing.models import Price
from channels_admin.selectors import config_version


@dataclass(frozen=True, slots=True)
class PriceSection:
    """Every open price at one configuration version, by row id."""

    version: int
    rows: Mapping[int, PriceRow]


def load_prices(previous: PriceSection | None) -> PriceSection:
    """The prices at the committed version; `previous` itself if that is still it.

    Only rows with a newer version are read; all others are the previous section's own objects.
    """
    version = config_version()
    if previous is not None and previous.version == version:
        return previous
    if previous is None or previous.version > version:  # the first, or an older database was put in place
        rows = Price.objects.filter(is_closed=False)
        return PriceSection(version, {row.pk: _row(row) for row in rows.order_by("pk")})
    # A row committed after `version` was read may be in already; the next load brings it once more.
    changed = list(Price.objects.filter(version__gt=previous.version).order_by("pk"))
    if not changed:
        return dataclasses.replace(previous, version=version)
    gone = {row.pk for row in changed}
    kept = {pk: row for pk, row in previous.rows.items() if pk not in gone}
    return PriceSection(version, kept | {row.pk: _row(row) for row in changed if not row.is_closed})


def _row(price: Price) -> PriceRow:
    parts = PriceParts(**{field.name: getattr(price, field.name) for field in dataclasses.fields(PriceParts)})
    return PriceRow(
        id=price.pk,
        model=price.model,
        group=price.group,
        effective_from=price.effective_from,
        parts=parts,
    )
