"""The stores of a run: a fresh PostgreSQL database and an emptied Redis database, both given back afterwards.

Also keeps the stores off the measured core: their processes are moved to the load core for the run.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from psycopg import sql

from tests.bench.processes import HarnessError, Processes

DEFAULT_DATABASE_URL = "postgres://postgres@127.0.0.1:5432/postgres"
DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/9"


def database_server_url() -> str:
    return os.environ.get("BENCH_DATABASE_URL") or os.environ.get("DATABASE_URL") or DEFAULT_DATABASE_URL


def redis_url() -> str:
    return os.environ.get("BENCH_REDIS_URL") or DEFAULT_REDIS_URL


def with_database(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


class Database:
    """A database made for this run and dropped at its end."""

    def __init__(self, processes: Processes, server_url: str, load_core: int) -> None:
        self._server_url, self._load_core = server_url, load_core
        self.name = f"sluice_bench_{os.getpid()}_{secrets.token_hex(3)}"
        self.url = with_database(server_url, self.name)
        self._execute(sql.SQL("CREATE DATABASE {}"))
        processes.on_exit(self.drop)

    def _execute(self, statement: sql.SQL) -> None:
        try:
            with psycopg.connect(self._server_url, autocommit=True, connect_timeout=5) as connection:
                connection.execute(statement.format(sql.Identifier(self.name)))
        except psycopg.Error as error:
            raise HarnessError(
                f"PostgreSQL at {urlsplit(self._server_url).hostname}: {error}. Name a server whose user may "
                "create databases with BENCH_DATABASE_URL."
            ) from error

    def drop(self) -> None:
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"))

    def backends(self) -> list[int]:
        """Process ids of the server's processes that work for this database; empty if they are elsewhere."""
        with psycopg.connect(self._server_url, autocommit=True, connect_timeout=5) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s", [self.name]
            ).fetchall()
        return [pid for (pid,) in rows if _command_name(pid).startswith("postgres")]

    def move_off(self) -> None:
        """Moves the backends of this database, and no others, to the load core."""
        for pid in self.backends():
            _pin(pid, self._load_core)


def _command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _pin(pid: int, core: int) -> bool:
    try:
        os.sched_setaffinity(pid, {core})
    except OSError:
        return False
    return True


def empty_redis(processes: Processes, url: str, load_core: int) -> list[int]:
    """Empties the database named by the URL, now and at the end. Returns the server's process id if it is here.

    The server is shared with whoever else uses it, so its cores are given back at the end.
    """
    try:
        number = int(urlsplit(url).path.strip("/") or 0)
    except ValueError:
        number = 0
    if number == 0:
        raise HarnessError(f"{url}: name a Redis database other than 0, it will be emptied")
    client = redis.Redis.from_url(url, socket_timeout=5)
    try:
        client.flushdb()
        info = client.info("server")
    except redis.RedisError as error:
        raise HarnessError(f"Redis at {url}: {error}. Name a server with BENCH_REDIS_URL.") from error

    def give_back() -> None:
        with suppress(redis.RedisError):
            client.flushdb()
        client.close()

    processes.on_exit(give_back)
    pid = int(info["process_id"])
    if not _command_name(pid).startswith(("redis", "valkey")):
        return []
    before = os.sched_getaffinity(pid)
    if not _pin(pid, load_core):
        return []

    def restore() -> None:
        with suppress(OSError):
            os.sched_setaffinity(pid, before)

    processes.on_exit(restore)
    return [pid]
