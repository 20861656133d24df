"""Without Redis exactly one process may serve: money and leases live in its memory. This is its lock.

A file lock on DATA_DIR, and an advisory lock where the database is shared by machines. Only `serve`
takes it; `migrate`, `apply` and the like run beside a server.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import psycopg
from django.db import connection

LOCK_FILE = "serve.lock"
_ADVISORY_KEY = 0x5_1C_E5_E2_0E  # any number, as long as nobody else uses it

_HOLDER = """
SELECT a.pid, coalesce(host(a.client_addr), 'local'), a.backend_start::timestamp(0)
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND (l.classid::bigint << 32 | l.objid::bigint) = %s
"""


class AlreadyServing(Exception):
    """Another process holds the lock; the text says which."""


@contextmanager
def serving_lock(data_dir: Path, label: str) -> Iterator[None]:
    """Held while the block runs; the kernel and the database free it however the process ends.

    label: what the other one is told about us, for example our address. Raises AlreadyServing.
    """
    with ExitStack() as held:
        held.enter_context(_file_lock(data_dir, label))
        if connection.vendor == "postgresql":
            held.enter_context(_advisory_lock())
        yield


@contextmanager
def _file_lock(data_dir: Path, label: str) -> Iterator[None]:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = data_dir / LOCK_FILE
    # Opened without truncating: the holder's words stand in it.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyServing(f"{path} is held by {_read_holder(file)}") from error
        file.truncate()
        file.write(f"process {os.getpid()}, {label}")
        file.flush()
        yield


def _read_holder(file: IO[str]) -> str:
    return file.read(200).strip() or "another process"


@contextmanager
def _advisory_lock() -> Iterator[None]:
    """On a connection of its own: Django's may be closed between requests, and the lock with it."""
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as session:
        row = session.execute("SELECT pg_try_advisory_lock(%s)", [_ADVISORY_KEY]).fetchone()
        if row is None or not row[0]:
            holder = session.execute(_HOLDER, [_ADVISORY_KEY]).fetchone()
            told = "backend {}, client {}, since {}".format(*holder) if holder else "another process"
            raise AlreadyServing(f"the database is served by {told}")
        yield
