"""Rows that never change: another value closes the open row of the same identity and makes a new one."""

from collections.abc import Mapping
from typing import TypeVar

from django.db import transaction
from django.utils import timezone

from billing.models import CostPrice, GroupMultiplier, Price
from channels_admin.services import config_version_bump

RowT = TypeVar("RowT", Price, CostPrice, GroupMultiplier)


def row_set(
    model: type[RowT], identity: Mapping[str, object], values: Mapping[str, object]
) -> tuple[RowT, bool]:
    """The open row of the identity has these values afterwards; and whether this call made it. Idempotent.

    Errors: ValidationError naming fields.
    """
    with transaction.atomic():
        # First of all: its lock lets nobody else change configuration meanwhile.
        version = config_version_bump()
        current = model.objects.filter(**identity, is_closed=False).first()
        if current is not None and all(getattr(current, name) == value for name, value in values.items()):
            transaction.set_rollback(True)  # nothing changed: the version stays as it was
            return current, False
        if current is not None:
            _close(current, version)
        row = model(**identity, **values, version=version)
        row.full_clean()
        row.save()
    return row, True


def row_close(row: Price | CostPrice | GroupMultiplier) -> None:
    """It counts for no request from now on. A closed row stays as it was closed."""
    with transaction.atomic():
        version = config_version_bump()
        current = type(row).objects.get(pk=row.pk)
        if not current.is_closed:
            _close(current, version)


def _close(row: Price | CostPrice | GroupMultiplier, version: int) -> None:
    row.is_closed, row.effective_to, row.version = True, timezone.now(), version
    row.save(update_fields=["is_closed", "effective_to", "version"])
