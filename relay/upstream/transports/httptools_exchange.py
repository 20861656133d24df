"""One request and its response on an httptools connection: future of the head, buffer and stream of the body.

The exchange outlives the connection, which goes back to the pool as soon as the last byte is parsed.

Must not import: Django, aiohttp, the connection that fills it.
"""

import asyncio
from typing import Protocol

import httpx

from relay.upstream.transports.contract import BodyStream, DialTrace

BUFFER_BYTES = 262_144  # above this the upstream is held back


class Carrier(Protocol):
    """What an exchange asks of its connection."""

    def drop(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Exchange(BodyStream):
    """One request and its response. Created with the request, filled by the connection's parser."""

    __slots__ = (
        "_buffered",
        "_chunks",
        "_error",
        "_loop",
        "_waiter",
        "connection",
        "head",
        "headers",
        "is_complete",
        "is_sent",
        "method",
        "needs_eof",
        "status",
        "trace",
        "upload",
    )

    def __init__(self, method: str, trace: DialTrace, loop: asyncio.AbstractEventLoop) -> None:
        self.method = method
        self.trace = trace
        self.head: asyncio.Future[None] = loop.create_future()  # done when status and headers are there
        self.status = 0  # 0 until the final head has been parsed
        self.headers: list[tuple[bytes, bytes]] = []
        self.needs_eof = False
        self.is_complete = False
        self.is_sent = False
        self.connection: Carrier | None = None
        self.upload: asyncio.Task[None] | None = None  # a streamed request body on its way
        self._loop = loop
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._error: httpx.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def has_come_whole(self) -> bool:
        return self.is_complete

    async def read_some(self) -> bytes:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self.is_complete:
                return b""
            waiter = self._waiter = self._loop.create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._buffered > BUFFER_BYTES and self.connection is not None:
            self.connection.resume_reading()
        self._buffered = 0
        return data

    async def aclose(self) -> None:
        connection = self.connection
        if connection is not None:
            connection.drop()

    def mark_sent(self) -> None:
        """The whole request is handed over."""
        self.is_sent = True
        self.trace.mark_sent()

    def add(self, data: bytes) -> None:
        """Body bytes; the reader is woken by `wake`, once for all that came together."""
        self._chunks.append(data)
        self._buffered += len(data)
        if self._buffered > BUFFER_BYTES and self.connection is not None:
            self.connection.pause_reading()

    def wake(self) -> None:
        """Something changed: let whoever waits look again."""
        waiter = self._waiter
        if waiter is not None and not waiter.done() and not self._is_taken():
            waiter.set_result(None)

    def _is_taken(self) -> bool:
        """Whether the sink has taken what arrived. Never at an end: that is the reader's to see."""
        if self.sink is None or not self._chunks or self.is_complete or self._error is not None:
            return False
        if not self.sink(self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)):
            return False
        self._chunks.clear()
        if self._buffered > BUFFER_BYTES and self.connection is not None:
            self.connection.resume_reading()
        self._buffered = 0
        return True

    def complete(self) -> None:
        """The last byte is there; the connection is no longer ours."""
        self.is_complete = True
        self._let_go()

    def fail(self, error: httpx.TransportError) -> None:
        """End with `error`, after the bytes that came before it. Later failures change nothing."""
        if not self.is_complete and self._error is None:
            self._error = error
            if not self.head.done():
                self.head.set_exception(error)
                self.head.exception()  # seen, should nobody wait for it any more
        self._let_go()

    def _let_go(self) -> None:
        self.connection = None
        if self.upload is not None:
            self.upload.cancel()
            self.upload = None
        self.wake()
