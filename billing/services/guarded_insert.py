"""`INSERT … ON CONFLICT DO NOTHING RETURNING`: which of these rows are new? One statement decides.

The ORM can ignore conflicts or return keys, not both; and it takes twice the time to write many wide rows,
which is most of what a worker does. Same SQL on SQLite (3.35 and later) and PostgreSQL. Names come from model
fields and are quoted, values are always parameters.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models.expressions import DatabaseDefault

_ROWS_PER_STATEMENT = 500
"""Keeps the parameters of the widest table below SQLite's limit of 32,766."""
_PLAIN = frozenset({int, str, bool, float, type(None)})
"""Types that both databases take as they are, in any column but JSON."""

M = TypeVar("M", bound=models.Model)
if TYPE_CHECKING:
    _Field = models.Field[Any, Any]


def rows_insert_new(rows: Sequence[M]) -> frozenset[UUID]:
    """Insert the rows of one model with a UUID primary key; the keys of those that were not there.

    Runs in the caller's transaction. Of two rows with one key the first is taken. Fields with a database
    default are left to the database. Errors: those of `django.db`.
    """
    new: set[UUID] = set()
    for chunk in _chunks(rows):
        key = chunk[0]._meta.pk  # noqa: SLF001  Django documents Model._meta as public
        quoted = connection.ops.quote_name(str(key.column))
        with connection.cursor() as cursor:
            _insert(cursor, chunk, f"ON CONFLICT ({quoted}) DO NOTHING RETURNING {quoted}")
            new.update(key.to_python(value) for (value,) in cursor.fetchall())
    return frozenset(new)


def rows_insert(rows: Sequence[models.Model]) -> None:
    """Insert the rows of one model, whose keys the database makes unless they are given.

    Runs in the caller's transaction; the objects do not learn their keys. Errors: those of `django.db`.
    """
    for chunk in _chunks(rows):
        with connection.cursor() as cursor:
            _insert(cursor, chunk)


def rows_upsert(rows: Sequence[models.Model], *, unique: Sequence[str], update: Sequence[str]) -> None:
    """Insert the rows of one model, or set `update` where a row with the same `unique` is there; attribute
    names of fields. Errors: those of `django.db`.
    """
    if not rows:
        return
    quote, meta = connection.ops.quote_name, rows[0]._meta  # noqa: SLF001  as above
    columns = {field.attname: quote(str(field.column)) for field in meta.concrete_fields}
    sets = ", ".join(f"{columns[name]} = EXCLUDED.{columns[name]}" for name in update)
    ending = f"ON CONFLICT ({', '.join(columns[name] for name in unique)}) DO UPDATE SET {sets}"
    for chunk in _chunks(rows):
        with connection.cursor() as cursor:
            _insert(cursor, chunk, ending)


def _chunks(rows: Sequence[M]) -> Iterator[Sequence[M]]:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]


def _insert(cursor: Any, rows: Sequence[models.Model], ending: str = "") -> None:
    meta = rows[0]._meta  # noqa: SLF001  as above
    fields = [field for field in meta.concrete_fields if _is_written(field, rows[0])]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    source, parameters = _source(fields, [list(_values(rows, field)) for field in fields])
    cursor.execute(f"INSERT INTO {quote(meta.db_table)} ({columns}) {source} {ending}", parameters)


def _source(fields: "Sequence[_Field]", columns: list[list[object]]) -> tuple[str, list[object]]:
    """The rows as SQL and its parameters: thousands of placeholders would cost PostgreSQL's driver more than
    all the rest, so it gets an array a column.
    """
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{field.db_type(connection)}[]" for field in fields)
        return f"SELECT * FROM UNNEST({arrays})", list(columns)  # noqa: S608  types of columns
    row = f"({', '.join(['%s'] * len(fields))})"
    return f"VALUES {', '.join([row] * len(columns[0]))}", list(
        itertools.chain.from_iterable(zip(*columns, strict=True))
    )


def _is_written(field: "_Field", row: models.Model) -> bool:
    """Not what the database makes: a number for the key, a default that no row was given a value for."""
    if isinstance(field, models.AutoField):
        return False
    return not (field.has_db_default() and isinstance(getattr(row, field.attname), DatabaseDefault))


def _values(rows: Sequence[models.Model], field: "_Field") -> Iterator[object]:
    """One column, all of one type or None: an array takes no others."""
    name, is_json, is_float = (
        field.attname,
        isinstance(field, models.JSONField),
        isinstance(field, models.FloatField),
    )
    for row in rows:
        value = getattr(row, name)
        if is_json or type(value) not in _PLAIN:
            yield field.get_db_prep_save(value, connection)
        else:
            yield float(value) if is_float and value is not None else value
