"""Commands out and replies in, over a connection that redis-py made: without the cost of its streams.

Dialling, TLS, passwords and databases stay the client library's.
"""

import asyncio
from typing import Any

import hiredis
from redis.exceptions import (
    BusyLoadingError,
    InvalidResponse,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as LostError

_MISSING = object()
_ERRORS: dict[str, type[RedisError]] = {
    "NOSCRIPT": NoScriptError,
    "READONLY": ReadOnlyError,
    "LOADING": BusyLoadingError,
    "OOM": OutOfMemoryError,
    "NOPERM": NoPermissionError,
}


class Wire(asyncio.Protocol):
    """One batch at a time: `send`, and the future of its replies. Used on one loop.

    before: the protocol that the client library gave the transport; it still hears of its end.
    """

    __slots__ = ("_before", "_expected", "_loop", "_parser", "_replies", "_transport", "_waiter", "is_lost")

    def __init__(self, transport: asyncio.Transport, before: asyncio.BaseProtocol) -> None:
        self.is_lost = transport.is_closing()
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._before = before
        self._parser = hiredis.Reader(
            protocolError=InvalidResponse, replyError=_error, notEnoughData=_MISSING
        )
        self._replies: list[Any] = []
        self._expected = 0
        self._waiter: asyncio.Future[list[Any]] | None = None

    def send(self, data: bytes, count: int) -> asyncio.Future[list[Any]]:
        """data: commands, packed; count: how many replies they have, at least one.

        The future has the replies, in order, a command's own error in its place. Errors: ConnectionError of
        redis-py, InvalidResponse, TimeoutError (see `expire`).
        """
        self._replies, self._expected = [], count
        waiter = self._waiter = self._loop.create_future()
        if self.is_lost:
            self._fail(LostError("closed"))
        else:
            self._transport.write(data)
        return waiter

    def expire(self) -> None:
        """The time of the batch is over, and with it the connection: what still comes is for nobody."""
        self._fail(TimeoutError())

    def data_received(self, data: bytes) -> None:
        replies = self._replies
        try:
            self._parser.feed(data)
            while (reply := self._parser.gets()) is not _MISSING:
                replies.append(reply)
        except RedisError as error:
            self._fail(error)
            return
        if len(replies) > self._expected:
            # None of them may be taken for one of the next batch.
            self._fail(InvalidResponse("more replies than commands"))
        elif replies and len(replies) == self._expected:
            waiter, self._waiter = self._waiter, None
            self._replies, self._expected = [], 0
            if waiter is not None and not waiter.done():
                waiter.set_result(replies)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._fail(LostError("lost" if exc is None else type(exc).__name__))
        self._before.connection_lost(exc)

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        if not self.is_lost:
            self.is_lost = True
            self._transport.abort()


def _error(text: str) -> RedisError:
    """As redis-py names it."""
    code, _, rest = text.partition(" ")
    kind = _ERRORS.get(code)
    return ResponseError(text) if kind is None else kind(rest)
