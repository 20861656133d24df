"""Prices are set, never edited: another value closes the row and makes a new one."""

import datetime
from dataclasses import dataclass, fields
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from billing.core.prices import PriceParts
from billing.models import Price
from channels_admin.services import config_version_bump


@dataclass(frozen=True, slots=True)
class PriceSetting:
    """changed: this call made a new row; a price that was there already with these parts is left alone."""

    price: Price
    changed: bool


def price_set(
    *, model: str, parts: PriceParts, effective_from: datetime.datetime, group: str = ""
) -> PriceSetting:
    """The open price of (model, group, effective_from) has these parts afterwards. Idempotent.

    Errors: ValidationError (values out of range, no name).
    """
    with transaction.atomic():
        # First of all: its lock lets nobody else change configuration meanwhile.
        version = config_version_bump()
        current = Price.objects.filter(
            model=model, group=group, effective_from=effective_from, is_closed=False
        ).first()
        if current is not None and price_parts(current) == parts:
            transaction.set_rollback(True)  # nothing changed: the version stays as it was
            return PriceSetting(current, changed=False)
        if current is not None:
            _close(current, version)
        price = Price(model=model, group=group, effective_from=effective_from, version=version)
        for name, value in _values(parts).items():
            setattr(price, name, value)
        price.full_clean()
        price.save()
    return PriceSetting(price, changed=True)


def price_close(*, price: Price) -> None:
    """No request is priced by it from now on. A closed price stays as it was closed."""
    with transaction.atomic():
        version = config_version_bump()
        current = Price.objects.get(pk=price.pk)
        if not current.is_closed:
            _close(current, version)


def price_parts(price: Price) -> PriceParts:
    return PriceParts(**{field.name: getattr(price, field.name) for field in fields(PriceParts)})


def _values(parts: PriceParts) -> dict[str, Decimal | None]:
    return {field.name: getattr(parts, field.name) for field in fields(parts)}


def _close(price: Price, version: int) -> None:
    price.is_closed, price.effective_to, price.version = True, timezone.now(), version
    price.save(update_fields=["is_closed", "effective_to", "version"])
