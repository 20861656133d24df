"""`INSERT … ON CONFLICT DO NOTHING RETURNING`: which of these rows are new? One statement decides.

The ORM can ignore conflicts or return keys, not both. Same SQL on SQLite (3.35 and later) and
PostgreSQL. Names come from model fields and are quoted, values are always parameters.
"""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from django.db import connection, models

_ROWS_PER_STATEMENT = 500
"""Keeps the parameters of the widest table below SQLite's limit of 32,766."""

M = TypeVar("M", bound=models.Model)


def rows_insert_new(rows: Sequence[M]) -> frozenset[UUID]:
    """Insert the rows of one model with a UUID primary key; the keys of those that were not there.

    Runs in the caller's transaction. Of two rows with one key the first is taken. Fields with a database
    default are left to the database. Errors: those of `django.db`.
    """
    new: set[UUID] = set()
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        new |= _insert(rows[start : start + _ROWS_PER_STATEMENT])
    return frozenset(new)


def _insert(rows: Sequence[M]) -> set[UUID]:
    meta = rows[0]._meta  # noqa: SLF001  Django documents Model._meta as public
    fields = [field for field in meta.concrete_fields if not field.has_db_default()]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    row = f"({', '.join(['%s'] * len(fields))})"
    key_column = quote(str(meta.pk.column))
    statement = (
        f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES {', '.join([row] * len(rows))} "  # noqa: S608  quoted names only
        f"ON CONFLICT ({key_column}) DO NOTHING RETURNING {key_column}"
    )
    values = [
        field.get_db_prep_save(getattr(item, field.attname), connection) for item in rows for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {meta.pk.to_python(value) for (value,) in cursor.fetchall()}
