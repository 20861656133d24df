"""The configuration version: taken first in each configuration transaction."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import connection, transaction
from django.db.models import F

from channels_admin.models import ConfigVersion
from channels_admin.models.base import VersionedModel

# The version of the change that is open in this thread, for the services called inside it.
_open_version: ContextVar[int | None] = ContextVar("open_version", default=None)


def config_version_bump() -> int:
    """The next version. Locks the one row until the transaction ends, so commits come in version order.

    Inside an open `configuration_change` it is that change's version, bumped once for all of it.
    """
    if (version := _open_version.get()) is not None:
        return version
    if not connection.in_atomic_block:
        raise RuntimeError("The configuration version is bumped inside a transaction only.")
    if not ConfigVersion.objects.filter(pk=1).update(number=F("number") + 1):
        raise RuntimeError("The row of the configuration version is missing: run `manage.py migrate`.")
    return ConfigVersion.objects.values_list("number", flat=True).get(pk=1)


def config_version_ensure() -> None:
    """Makes the row where there is none; changes nothing else."""
    ConfigVersion.objects.get_or_create(pk=1)


@contextmanager
def configuration_change() -> Iterator[int]:
    """One configuration transaction; gives the version to stamp changed rows with.

    Read rows inside it: the bump's lock means that nobody else changes configuration meanwhile.
    Services called inside join it: one transaction (theirs become savepoints), one version.
    """
    with transaction.atomic():
        version = config_version_bump()
        token = _open_version.set(version)
        try:
            yield version
        finally:
            _open_version.reset(token)


def row_save(row: VersionedModel, version: int, fields: Mapping[str, object] | None = None) -> None:
    """Sets `fields`, validates every field and constraint, saves. Raises ValidationError naming fields."""
    _assign(row, version, fields or {})
    row.full_clean()
    row.save()


def row_switch(row: VersionedModel, version: int, fields: Mapping[str, object]) -> None:
    """As `row_save`, but judges `fields` only: what became invalid since can still be switched off."""
    _assign(row, version, fields)
    others = {field.name for field in row._meta.concrete_fields} - fields.keys()  # noqa: SLF001  public API
    row.clean_fields(exclude=others)
    row.save(update_fields=[*fields, "version"])


def _assign(row: VersionedModel, version: int, fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
    row.version = version
