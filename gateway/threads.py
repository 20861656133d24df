"""Database work off the event loop: a few long-lived threads that keep their connections.

The console's threads come and go with its requests and belong to Django; these are the relay's own, for
what its steady state does not need: API keys not seen yet, the configuration poll, one's own request.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
T = TypeVar("T")


class DatabaseThreads:
    """`run` calls a function with ORM access in one of `size` threads."""

    def __init__(self, *, name: str, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._known = threading.local()
        self._connections: list[BaseDatabaseWrapper] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: self._call(function, *args, **kwargs))

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for what only reads: asked once more on a new connection if the thread's old one failed.

        After an outage each thread still has a dead connection; nobody should be refused for that.
        """
        return await self.run(_twice_at_most, lambda: function(*args, **kwargs))

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not getattr(self._known, "is_known", False):
            self._known.is_known = True
            self._connections.append(connections["default"])
        try:
            return function(*args, **kwargs)
        except (OperationalError, InterfaceError):
            connection.close()  # the next call dials anew instead of failing on a dead connection
            raise

    async def aclose(self) -> None:
        """Waits for what runs, then closes every thread's connection."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._executor.shutdown()
        for opened in self._connections:
            opened.inc_thread_sharing()  # its own thread is gone
            opened.close()
        self._connections.clear()


def _twice_at_most(read: Callable[[], T]) -> T:
    was_open = connection.connection is not None
    try:
        return read()
    except (OperationalError, InterfaceError):
        if not was_open:
            raise
        connection.close()
    return read()
