"""Fills a PostgreSQL database as a busy gateway would leave it after half a year: requests, attempts, usage,
ledger and roll-ups that agree with each other.

    DATABASE_URL=postgres://… python -m tests.scale.generate --requests 10000000 --indexes-after

Made by the database itself from `scale_draft`, one row a request, in the order of time. The database must be
migrated, and empty of requests. Needs a superuser: foreign keys are not checked while rows are written.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, models, transaction

SUCCESSES = ("completed", "completed_without_terminal")
BUCKETS = 15
TENANTS, KEYS, MODELS, CHANNELS, DAYS = 50, 300, 40, 25, 180


@dataclass(frozen=True, slots=True)
class Size:
    requests: int = 10_000_000
    days: int = DAYS
    tenants: int = TENANTS
    keys: int = KEYS
    models: int = MODELS
    channels: int = CHANNELS
    indexes_after: bool = False
    """Drop indexes while rows are written: faster for millions, pointless for thousands."""


def generate(size: Size) -> None:
    """Errors: those of `django.db`."""
    from tests.scale.configured import configured_make  # noqa: PLC0415  needs Django to be set up

    _step("configured rows", lambda: configured_make(size))
    _step("drafts", lambda: _draft(size))
    if not size.indexes_after:
        for _name, fill in _fills(size):
            fill()
        _analyze()
        return
    with _without_indexes(), ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda one: _step(*one), _fills(size)))
    _step("vacuum", _analyze)


def _fills(size: Size) -> list[tuple[str, Callable[[], None]]]:
    from tests.scale import statements  # noqa: PLC0415  as above

    return [
        ("ledger", lambda: _execute(*statements.ledger())),
        ("requests", lambda: _execute(statements.requests())),
        ("attempts", lambda: _execute(*statements.attempts())),
        ("usage", lambda: _execute(statements.usage())),
        ("daily", lambda: _each_day(size, statements.daily())),
        ("hourly", lambda: _each_day(size, statements.hourly())),
    ]


def _draft(size: Size) -> None:
    from tests.scale import statements  # noqa: PLC0415  as above

    _execute(*statements.drafts(size))


def _each_day(size: Size, statement: str) -> None:
    """A day at a time: the groups of half a year would not fit into memory."""
    step = -(-size.requests // size.days)
    for first in range(1, size.requests + 1, step):
        _execute(statement.format(first=first, after=first + step))


def _execute(*statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("SET LOCAL work_mem = '400MB'")
        for statement in statements:
            cursor.execute(statement)


def _analyze() -> None:
    with connection.cursor() as cursor:
        can_vacuum = not connection.in_atomic_block
        for table in _big_tables():
            cursor.execute(f"{'VACUUM (ANALYZE)' if can_vacuum else 'ANALYZE'} {table}")


def _big_tables() -> list[str]:
    from billing import models as billing  # noqa: PLC0415  as above

    big: list[type[models.Model]] = [
        billing.RelayRequest, billing.Attempt, billing.UsageRecord, billing.LedgerEntry, billing.UsageDaily,
        billing.UsageHourly, billing.Account,
    ]  # fmt: skip
    return [table._meta.db_table for table in big]


@contextmanager
def _without_indexes() -> Iterator[None]:
    """Those of constraints stay: rows come in the order of their keys."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND indexname NOT IN "
            "(SELECT conname FROM pg_constraint)",
            [_big_tables()],
        )
        indexes = dict(cursor.fetchall())
        for name in indexes:
            cursor.execute(f"DROP INDEX {name}")
    yield
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda one: _step(one[0], lambda: _make_index(one[1])), indexes.items()))


def _make_index(definition: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '1GB'")
        cursor.execute(definition)


def _step(name: str, work: Callable[[], Any]) -> None:
    begin = time.monotonic()
    work()
    print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)  # noqa: T201  a command


def insert(table: type[models.Model], source: str, values: Mapping[str, str]) -> str:
    """`INSERT … SELECT` of SQL expressions by attribute name; what is not named gets the field's default."""
    filled: dict[str, str] = {}
    for field in table._meta.concrete_fields:
        if field.attname in values:
            filled[str(field.column)] = values[field.attname]
        elif not isinstance(field, models.AutoField) and not field.has_db_default():
            filled[str(field.column)] = _default(field)
    columns = ", ".join(f'"{column}"' for column in filled)
    return f"INSERT INTO {table._meta.db_table} ({columns}) SELECT {', '.join(filled.values())} {source}"


def _default(field: "models.Field[Any, Any]") -> str:
    if field.null:
        return f"NULL::{field.db_type(connection)}"
    default = field.get_default()
    if isinstance(field, models.JSONField):
        return f"'{'[]' if isinstance(default, list) else '{}'}'::jsonb"
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, int | float) else f"'{default or ''}'"


def main() -> None:
    import os  # noqa: PLC0415

    import django  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    django.setup()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=Size.requests)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--indexes-after", action="store_true")
    asked = parser.parse_args()
    generate(Size(requests=asked.requests, days=asked.days, indexes_after=asked.indexes_after))


if __name__ == "__main__":
    main()
