"""Idle connections by (scheme, host, port): last in, first out, each kept for `idle_s` seconds.

Must not import: Django, aiohttp.
"""

import asyncio
import time

from relay.upstream.transports.httptools_connection import Connection

PoolKey = tuple[str, str, int]  # scheme, host in ASCII, port

_CLOSE_WAIT_S = 1.0


class ConnectionPool:
    """Knows every connection of one transport, idle or busy. No upper limit. One event loop."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._idle: dict[PoolKey, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def protocol(self, key: PoolKey) -> Connection:
        """The protocol object of a connection about to be dialled; `add` it once it is up."""
        return Connection(key, self._on_free, self._on_gone)

    def add(self, connection: Connection) -> None:
        """A connection is up and busy."""
        self._all.add(connection)

    def take(self, key: PoolKey) -> Connection | None:
        """The freshest idle connection that is still good, or None."""
        idle = self._idle.get(key)
        if not idle:
            return None
        oldest_allowed = time.monotonic() - self._idle_s
        while idle:
            connection = idle.pop()
            if connection.idle_since >= oldest_allowed and not connection.is_stale():
                return connection
            connection.drop()
        return None

    async def aclose(self) -> None:
        """Cut everything and wait until the sockets are closed."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in list(self._all):
            connection.drop()
        if self._all:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=_CLOSE_WAIT_S)

    def _on_free(self, connection: Connection) -> None:
        connection.idle_since = time.monotonic()
        self._idle.setdefault(connection.key, []).append(connection)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(self._idle_s, self._drop_expired)

    def _on_gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        idle = self._idle.get(connection.key)
        if idle is not None and connection in idle:
            idle.remove(connection)
        if not self._all and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _drop_expired(self) -> None:
        """One timer for all: runs when the oldest idle connection expires."""
        now = time.monotonic()
        oldest_allowed = now - self._idle_s
        oldest: float | None = None
        for key, idle in list(self._idle.items()):
            kept = [connection for connection in idle if connection.idle_since > oldest_allowed]
            for connection in idle:
                if connection.idle_since <= oldest_allowed:
                    connection.drop()
            if not kept:
                del self._idle[key]
                continue
            self._idle[key] = kept
            oldest = kept[0].idle_since if oldest is None else min(oldest, kept[0].idle_since)
        self._sweep = None
        if oldest is not None:
            after_s = oldest + self._idle_s - now
            self._sweep = asyncio.get_running_loop().call_later(after_s, self._drop_expired)
