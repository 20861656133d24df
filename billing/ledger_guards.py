"""Database triggers that make the ledger append-only, whoever writes to it.

They are created after every `migrate`, not by a migration: on SQLite a later AlterField rebuilds the
table, and the triggers silently go with the old one. A system check (`billing.E001`) looks for them.
Both databases report a refused change as `IntegrityError`.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLE = "billing_ledgerentry"
_MESSAGE = "the ledger is append-only"

_SQLITE = {
    f"{TABLE}_no_update": f"CREATE TRIGGER IF NOT EXISTS {TABLE}_no_update BEFORE UPDATE ON {TABLE} "
    f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END",
    f"{TABLE}_no_delete": f"CREATE TRIGGER IF NOT EXISTS {TABLE}_no_delete BEFORE DELETE ON {TABLE} "
    f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END",
}
# 23001 is restrict_violation: psycopg maps the class 23 to IntegrityError.
_POSTGRES_FUNCTION = (
    f"CREATE OR REPLACE FUNCTION {TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ "
    f"BEGIN RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = '23001'; END $$"
)
# PostgreSQL 13 has no CREATE TRIGGER IF NOT EXISTS: names are looked up first.
_POSTGRES = {
    f"{TABLE}_no_change": f"CREATE TRIGGER {TABLE}_no_change BEFORE UPDATE OR DELETE ON {TABLE} "
    f"FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    f"{TABLE}_no_truncate": f"CREATE TRIGGER {TABLE}_no_truncate BEFORE TRUNCATE ON {TABLE} "
    f"FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_refuse()",
}


def guards_missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Names of the triggers the ledger should have and has not; empty for an unknown database."""
    wanted = _wanted(connection)
    if not wanted:
        return []
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s"
        if connection.vendor == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s)"
    )
    with connection.cursor() as cursor:
        cursor.execute(query, [TABLE])
        present = {name for (name,) in cursor.fetchall()}
    return sorted(wanted.keys() - present)


def guards_install(connection: BaseDatabaseWrapper) -> None:
    """Create what is missing; nothing happens when all is there, or when there is no ledger yet."""
    if not _has_table(connection):
        return
    missing = guards_missing(connection)
    with connection.cursor() as cursor:
        if missing and connection.vendor == "postgresql":
            cursor.execute(_POSTGRES_FUNCTION)
        for name in missing:
            cursor.execute(_wanted(connection)[name])


def guards_remove(connection: BaseDatabaseWrapper) -> None:
    """For tests that empty the tables. Nothing else calls it."""
    if not _has_table(connection):
        return
    with connection.cursor() as cursor:
        for name in _wanted(connection):
            suffix = f" ON {TABLE}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{suffix}")


def after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    guards_install(connections[using])


def check_guards(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """System check for `check --database default`: an unprotected ledger is an error."""
    return [
        Error(
            f"The ledger in database '{alias}' has lost its protection: {', '.join(missing)}.",
            hint="Run `manage.py migrate`: it puts the triggers back.",
            id="billing.E001",
        )
        for alias in databases or ()
        if _has_table(connections[alias]) and (missing := guards_missing(connections[alias]))
    ]


def _wanted(connection: BaseDatabaseWrapper) -> dict[str, str]:
    return {"sqlite": _SQLITE, "postgresql": _POSTGRES}.get(connection.vendor, {})


def _has_table(connection: BaseDatabaseWrapper) -> bool:
    return TABLE in connection.introspection.table_names()
