"""Open rows → the text of a price file, which `importing` reads back to the same rows."""

import datetime
from collections.abc import Iterator

from billing.core.price_json import image_rates_read, image_rates_written, tiers_read, tiers_written
from billing.core.prices import PART_NAMES
from billing.models import CostPrice, GroupMultiplier, Price
from billing.models.prices import PriceColumns
from gateway.price_files.tables import SECTIONS, Format, csv_text, data_text

_COLUMNS = (
    "channel",
    "model",
    "group",
    "effective_from",
    *PART_NAMES,
    "tiers",
    "image_rates",
    "multiplier",
)


def export_text(kind: Format) -> str:
    """Every open price, cost price and multiplier, in a lasting order. Sections without rows are left out."""
    entries = list(_entries())
    if kind is Format.CSV:
        return csv_text(entries, _COLUMNS)
    sections = {name: [fields for section, fields in entries if section == name] for name in SECTIONS}
    return data_text({name: found for name, found in sections.items() if found or name == "prices"}, kind)


def _entries() -> Iterator[tuple[str, dict[str, object]]]:
    for price in Price.objects.filter(is_closed=False).order_by("model", "group", "effective_from"):
        group = {"group": price.group} if price.group else {}
        yield "prices", {"model": price.model, **group, **_terms(price)}
    costs = CostPrice.objects.filter(is_closed=False).select_related("channel")
    for cost in costs.order_by("channel__name", "model", "effective_from"):
        yield "cost_prices", {"channel": cost.channel.name, "model": cost.model, **_terms(cost)}
    for row in GroupMultiplier.objects.filter(is_closed=False).order_by("group", "effective_from"):
        yield (
            "group_multipliers",
            {
                "group": row.group,
                "effective_from": _moment(row.effective_from),
                "multiplier": row.multiplier.normalize(),
            },
        )


def _terms(row: PriceColumns) -> dict[str, object]:
    fields: dict[str, object] = {"effective_from": _moment(row.effective_from)}
    fields |= {name: value.normalize() for name in PART_NAMES if (value := getattr(row, name)) is not None}
    if row.tiers:
        fields["tiers"] = tiers_written(tiers_read(row.tiers))
    if row.image_rates:
        fields["image_rates"] = image_rates_written(image_rates_read(row.image_rates))
    return fields


def _moment(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
