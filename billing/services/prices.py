"""Prices, cost prices and group multipliers are set, never edited (`immutable_rows`)."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from billing.core.price_json import image_rates_written, tiers_written
from billing.core.prices import PART_NAMES, PriceParts, Tier
from billing.models import CostPrice, GroupMultiplier, Price
from billing.services.immutable_rows import row_close, row_set


@dataclass(frozen=True, slots=True)
class PriceSetting:
    """changed: this call made a new row; a price that was there already with these values is left alone."""

    price: Price
    changed: bool


@dataclass(frozen=True, slots=True)
class CostPriceSetting:
    cost_price: CostPrice
    changed: bool


@dataclass(frozen=True, slots=True)
class GroupMultiplierSetting:
    multiplier: GroupMultiplier
    changed: bool


PRICE_IDENTITY = ("model", "group", "effective_from")
COST_PRICE_IDENTITY = ("channel_id", "model", "effective_from")
MULTIPLIER_IDENTITY = ("group", "effective_from")


def price_set(
    *,
    model: str,
    parts: PriceParts,
    effective_from: datetime.datetime,
    group: str = "",
    tiers: tuple[Tier, ...] = (),
    image_rates: Mapping[str, Decimal] | None = None,
) -> PriceSetting:
    """The open price of (model, group, effective_from) has these values afterwards. Idempotent.

    image_rates: `size/quality` → USD per picture.
    Errors: ValidationError (values out of range, no name).
    """
    identity = {"model": model, "group": group, "effective_from": effective_from}
    return PriceSetting(*row_set(Price, identity, price_columns(parts, tiers, image_rates or {})))


def cost_price_set(
    *,
    channel_id: int,
    model: str,
    parts: PriceParts,
    effective_from: datetime.datetime,
    tiers: tuple[Tier, ...] = (),
    image_rates: Mapping[str, Decimal] | None = None,
) -> CostPriceSetting:
    """The same for what the operator pays: (channel, model sent, effective_from).

    Errors: ValidationError.
    """
    identity = {"channel_id": channel_id, "model": model, "effective_from": effective_from}
    return CostPriceSetting(*row_set(CostPrice, identity, price_columns(parts, tiers, image_rates or {})))


def group_multiplier_set(
    *, group: str, multiplier: Decimal, effective_from: datetime.datetime
) -> GroupMultiplierSetting:
    """The same for (group, effective_from). Errors: ValidationError."""
    identity = {"group": group, "effective_from": effective_from}
    return GroupMultiplierSetting(*row_set(GroupMultiplier, identity, {"multiplier": multiplier}))


def price_close(*, price: Price) -> None:
    """No request is priced by it from now on. A closed price stays as it was closed."""
    row_close(price)


def cost_price_close(*, cost_price: CostPrice) -> None:
    row_close(cost_price)


def group_multiplier_close(*, multiplier: GroupMultiplier) -> None:
    row_close(multiplier)


def price_columns(
    parts: PriceParts, tiers: tuple[Tier, ...], image_rates: Mapping[str, Decimal]
) -> dict[str, object]:
    """Column → value, as rows keep it."""
    return {
        **{name: getattr(parts, name) for name in PART_NAMES},
        "tiers": tiers_written(tiers),
        "image_rates": image_rates_written(image_rates),
    }
