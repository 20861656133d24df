"""Rows that never change: another value closes the open row of the same identity and makes a new one."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from django.db import transaction
from django.utils import timezone

from billing.models import CostPrice, GroupMultiplier, Price
from channels_admin.services import config_version_bump

RowT = TypeVar("RowT", Price, CostPrice, GroupMultiplier)
_WRITTEN_AT_ONCE = 500


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
        if current is not None and _has(current, values):
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


class RowBatch(Generic[RowT]):
    """As `row_set`, for thousands: what is open is read once, and what is set is written at the end.

    Lives inside one `configuration_change`. identity: names of the columns that make a row what it is.
    """

    def __init__(self, model: type[RowT], identity: tuple[str, ...]) -> None:
        self._model: type[RowT] = model
        self._identity = identity
        self._open: dict[tuple[object, ...], RowT] = {
            tuple(getattr(row, name) for name in identity): row
            for row in model.objects.filter(is_closed=False)
        }
        self._new: list[RowT] = []
        self._replaced: list[int] = []

    def open_row(self, *identity: object) -> RowT | None:
        return self._open.get(identity)

    def set(self, *identity: object, values: Mapping[str, object]) -> None:
        """Errors: ValidationError naming fields; then nothing of it will be written."""
        current = self._open.get(identity)
        if current is not None and _has(current, values):
            return
        row = self._model(**dict(zip(self._identity, identity, strict=True)), **values)
        # The other checks ask the database: that there is such a channel, and one open row of an identity.
        row.clean_fields(exclude={"channel"})
        row.clean()
        self._new.append(row)
        self._open[identity] = row
        if current is not None and current.pk is not None:
            self._replaced.append(current.pk)

    def write(self) -> None:
        version, now = config_version_bump(), timezone.now()
        for at in range(0, len(self._replaced), _WRITTEN_AT_ONCE):
            replaced = self._model.objects.filter(pk__in=self._replaced[at : at + _WRITTEN_AT_ONCE])
            replaced.update(is_closed=True, effective_to=now, version=version)
        for row in self._new:
            row.version = version
        self._model.objects.bulk_create(self._new, batch_size=_WRITTEN_AT_ONCE)


def _has(row: Price | CostPrice | GroupMultiplier, values: Mapping[str, object]) -> bool:
    return all(getattr(row, name) == value for name, value in values.items())


def _close(row: Price | CostPrice | GroupMultiplier, version: int) -> None:
    row.is_closed, row.effective_to, row.version = True, timezone.now(), version
    row.save(update_fields=["is_closed", "effective_to", "version"])
