"""What stands in the stores, read past the gateway's own code where it can be."""

import asyncio
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from billing.admission.redis import RedisOpenRecords
from billing.admission.store import SettledCounts

PREFIX = "sluice:"

_ROWS = """
SELECT r.client_request_id, cast(r.id AS text), r.state, r.cost_nano, r.end_reason, r.estimated, u.output
FROM billing_relayrequest r JOIN billing_usagerecord u ON u.request_id = r.id JOIN channels_admin_tenant t ON t.id = r.tenant_id WHERE t.name = %s
"""
_UNBALANCED = """
SELECT a.id, a.balance_nano, a.account_seq, coalesce(sum(e.amount_nano), 0), count(e.id), max(e.account_seq)
FROM billing_account a LEFT JOIN billing_ledgerentry e ON e.account_id = a.id
GROUP BY a.id HAVING a.balance_nano <> coalesce(sum(e.amount_nano), 0)
    OR a.account_seq <> count(e.id) OR a.account_seq <> coalesce(max(e.account_seq), 0)
"""
_MISCHARGED = """
SELECT r.id, r.cost_nano, coalesce(sum(e.amount_nano), 0), count(*) FILTER (WHERE e.kind = 'charge')
FROM billing_relayrequest r LEFT JOIN billing_ledgerentry e ON e.request_id = r.id
GROUP BY r.id HAVING coalesce(sum(e.amount_nano), 0) <> -coalesce(r.cost_nano, 0)
    OR count(*) FILTER (WHERE e.kind = 'charge') <> 1
"""
_ORPHANS = """
SELECT e.id FROM billing_ledgerentry e LEFT JOIN billing_relayrequest r ON r.id = e.request_id
WHERE e.request_id IS NOT NULL AND r.id IS NULL
"""
_STATE = "SELECT count(*), coalesce(sum(amount_nano), 0) FROM billing_ledgerentry"
_DEAD = "SELECT count(*) FROM billing_deadoutcome"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """name: the client's id of the request. output: tokens that are charged; None = it got nothing."""

    name: str
    request_id: str
    state: str
    cost_nano: int
    end_reason: str
    is_estimated: bool
    output: int | None


class DatabaseBooks(ABC):
    """The part that is in a database, whichever it is."""

    @abstractmethod
    def left_open(self) -> list[str]:
        """Whatever holds money or a place."""

    @abstractmethod
    def _ask(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """Rows. text: with `%s` for each value."""

    def tenant_id(self, tenant: str) -> int:
        ((found,),) = self._ask("SELECT id FROM channels_admin_tenant WHERE name = %s", tenant)
        return int(found)

    def rows(self, tenant: str) -> list[Row]:
        return [Row(*columns) for columns in self._ask(_ROWS, tenant)]

    def ledger_state(self) -> tuple[int, int]:
        """How many entries there are, and their sum: changes with whatever is booked."""
        ((count, total),) = self._ask(_STATE)
        return int(count), int(total)

    def check_ledger(self) -> None:
        """Σ entries = balances; each request is charged once, and in all what its row says."""
        assert self._ask(_UNBALANCED) == []
        assert self._ask(_MISCHARGED) == []
        assert self._ask(_ORPHANS) == []
        assert self._ask(_DEAD) == [(0,)]


class Books(DatabaseBooks):
    """PostgreSQL and Redis. database_url: not through the gate."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        self._database_url = database_url
        self._redis = redis.Redis.from_url(redis_url, socket_timeout=5)
        self._store = RedisOpenRecords(redis_url, PREFIX)

    def close(self) -> None:
        self._redis.close()
        self._store.close()

    def open_amount(self, tenant: str) -> int:
        return self._store.open_amounts().get(self.tenant_id(tenant), 0)

    def counts(self) -> SettledCounts:
        return self._store.counts()

    def balances(self) -> dict[int, tuple[int, int]]:
        """Account → what the ledger says it has, and what the store believes; of those the store knows."""
        known = {int(account): int(nano) for account, nano in self._redis.hgetall(f"{PREFIX}balance").items()}
        rows = self._ask("SELECT tenant_id, balance_nano FROM billing_account")
        return {account: (nano, known[account]) for account, nano in rows if account in known}

    def is_in_grace(self) -> bool:
        """Whether the store is too young, or was away too lately, for anybody to be taken for dead."""
        ends_ms, now_s = self._redis.get(f"{PREFIX}grace_until"), self._redis.time()[0]
        return ends_ms is not None and int(ends_ms) > now_s * 1000

    def left_open(self) -> list[str]:
        """Whatever holds money or a place: open records, amounts, leases."""
        left = [f"{key.decode()}" for key in self._redis.scan_iter(f"{PREFIX}lease:*")]
        left += [f"{key.decode()}" for key in self._redis.scan_iter(f"{PREFIX}rec:*")]
        return left + [f"open {account}: {nano}" for account, nano in self._store.open_amounts().items()]

    def holders(self, lease: str) -> int:
        return int(self._redis.scard(f"{PREFIX}lease:{lease}"))

    def _ask(self, text: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self._database_url, autocommit=True, connect_timeout=10) as connection:
            return connection.execute(text, values).fetchall()


class EmbeddedBooks(DatabaseBooks):
    """SQLite, with the copy of the open records that the next life reads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def left_open(self) -> list[str]:
        return [str(key) for (key,) in self._ask("SELECT request_id FROM billing_openrecordrow")]

    def _ask(self, text: str, *values: object) -> list[tuple[object, ...]]:
        url = f"file:{self._path}?mode=ro"
        with closing(sqlite3.connect(url, uri=True, timeout=20)) as connection:
            return connection.execute(text.replace("%s", "?"), values).fetchall()


async def booked_once(
    books: DatabaseBooks, tenant: str, names: Iterable[str], *, within_s: float
) -> list[Row]:
    """Waits until each of these requests, and nothing else of the tenant, has its row and nothing is open.

    Then the books must be right, and nobody may be charged twice. Returns the rows.
    """
    wanted = Counter(names)
    deadline = time.monotonic() + within_s
    while True:
        rows = await asyncio.to_thread(books.rows, tenant)
        left = await asyncio.to_thread(books.left_open)
        if len(rows) >= len(wanted) and not left:
            break
        if time.monotonic() > deadline:
            have = Counter(row.name for row in rows)
            missing, extra = sorted((wanted - have).keys()), sorted((have - wanted).keys())
            raise AssertionError(f"missing {missing[:9]}, too much {extra[:9]}, open {len(left)}: {left[:9]}")
        await asyncio.sleep(0.5)
    assert Counter(row.name for row in rows) == wanted
    await asyncio.to_thread(books.check_ledger)
    return rows
