"""Where rows live: SQLite in DATA_DIR, or PostgreSQL through DATABASE_URL."""

from typing import Any

import dj_database_url

from gateway.settings.environment import ENV

_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA foreign_keys=ON;PRAGMA recursive_triggers=ON"
)

# A server that hangs, or whose machine is gone, is an outage like any other: the operating system alone would
# wait for hours. What the URL says goes before.
_POSTGRESQL_PATIENCE = {
    "connect_timeout": 5,  # seconds
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}


def _sqlite() -> dict[str, Any]:
    ENV.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(ENV.DATA_DIR / "sluice.sqlite3"),
        # IMMEDIATE: a transaction that reads and then writes would otherwise meet "database is locked",
        # which no time-out helps against.
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": _SQLITE_PRAGMAS},
        # A file, because tests use several threads, which do not share an in-memory database.
        "TEST": {"NAME": str(ENV.DATA_DIR / "test.sqlite3")},
    }


def _from_url() -> dict[str, Any]:
    # CONN_MAX_AGE stays 0: under ASGI each console request runs in a thread of its own. The
    # gateway's long-lived threads keep their connection by themselves (gateway.threads).
    database: dict[str, Any] = dict(dj_database_url.parse(ENV.DATABASE_URL))
    if database["ENGINE"] == "django.db.backends.postgresql":
        database["OPTIONS"] = _POSTGRESQL_PATIENCE | database.get("OPTIONS", {})
    return database


DATABASES = {"default": _from_url() if ENV.DATABASE_URL else _sqlite()}
