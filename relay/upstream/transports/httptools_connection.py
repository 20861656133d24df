"""One HTTP/1.1 client connection on httptools' response parser: fills the exchange it carries.

Nothing here dials, pools or reads a clock.

Must not import: Django, aiohttp.
"""

import asyncio
import select
from collections.abc import Callable
from typing import cast

import httptools
import httpx

from relay.upstream.transports.contract import MAX_HEADER_LINE_BYTES, has_no_body
from relay.upstream.transports.httptools_exchange import Exchange

MAX_HEAD_BYTES = 262_144  # all header lines of one response, interim ones included


class Connection(asyncio.Protocol):
    """The protocol object of one socket. `on_free` takes it back for reuse, `on_gone` hears of its end."""

    __slots__ = (
        "_drained",
        "_head_bytes",
        "_is_interim",
        "_is_reusable",
        "_is_sent_on_drain",
        "_is_writable",
        "_on_free",
        "_on_gone",
        "_parser",
        "_poller",
        "_quiet_bytes",
        "_saw_eof",
        "_was_fed",
        "exchange",
        "idle_since",
        "key",
        "loop",
        "transport",
    )

    def __init__(
        self,
        key: tuple[str, str, int],
        on_free: Callable[["Connection"], None],
        on_gone: Callable[["Connection"], None],
    ) -> None:
        self.key = key
        self.idle_since = 0.0
        self.exchange: Exchange | None = None
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self._on_free = on_free
        self._on_gone = on_gone
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._poller = select.poll()
        self._drained: asyncio.Future[None] | None = None  # a streamed upload waiting for room
        self._head_bytes = 0
        self._quiet_bytes = 0
        self._is_interim = False
        self._is_reusable = False
        self._is_sent_on_drain = False
        self._is_writable = True
        self._saw_eof = False
        self._was_fed = False

    # What the transport above asks for.

    def begin(self, exchange: Exchange) -> None:
        """Take the connection for one exchange."""
        self.exchange = exchange
        exchange.connection = self
        self._head_bytes = self._quiet_bytes = 0
        self._is_interim = False
        self._is_reusable = False

    def write(self, data: bytes, exchange: Exchange, *, is_last: bool) -> None:
        """Hand over bytes of the request. The trace follows once the socket has room again."""
        self.transport.write(data)
        exchange.trace.mark_sending()
        if is_last and self._is_writable:
            exchange.mark_sent()
        self._is_sent_on_drain = is_last and not self._is_writable

    async def drain(self) -> None:
        """Wait until the socket has room again."""
        if not self._is_writable:
            self._drained = self.loop.create_future()
            await self._drained

    def check_open(self) -> None:
        """Raise WriteError when the connection went down before anything was written."""
        if self.transport.is_closing():
            raise httpx.WriteError("connection closed before the request was sent")

    def is_stale(self) -> bool:
        """Whether an idle connection is closed or has bytes waiting: both mean it answers nobody any more."""
        return self.transport.is_closing() or bool(self._poller.poll(0))

    def drop(self) -> None:
        """Cut the connection now: unsent bytes are thrown away, nothing is waited for."""
        self._break(httpx.ReadError("connection was closed"))

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.transport.resume_reading()

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transports share no base class
        self._poller.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        parser = self._parser
        if exchange is None or parser is None:
            self.drop()  # an answer to no question must never meet the next request
            return
        self._was_fed = False
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not exchange.is_complete:
                self._break(httpx.RemoteProtocolError(f"upstream broke HTTP: {type(error).__name__}"))
                return
            self._is_reusable = False  # rubbish behind a complete answer
        if exchange.is_complete:
            self._end()
        elif self._was_fed:
            self._quiet_bytes = 0
            exchange.wake()
        else:
            self._quiet_bytes += len(data)
            if self._quiet_bytes > MAX_HEAD_BYTES:
                self._break(httpx.RemoteProtocolError("upstream's header section is too large"))

    def eof_received(self) -> None:
        self._saw_eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self.exchange = self.exchange, None
        self._parser = None  # the parser holds our methods: break the circle
        if exchange is not None:
            if exchange.needs_eof and exc is None and self._saw_eof:
                exchange.complete()
            else:
                word = type(exc).__name__ if exc is not None else "closed early"
                exchange.fail(httpx.ReadError(f"connection broke: {word}"))
        self.resume_writing()
        self._on_gone(self)

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        if self._is_sent_on_drain and self.exchange is not None:
            self.exchange.mark_sent()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # httptools' callbacks.

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        self._head_bytes += size
        if size > MAX_HEADER_LINE_BYTES or self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("header too large")
        exchange = self.exchange
        if exchange is not None and exchange.status == 0:  # else a trailer
            exchange.headers.append((name, value))

    def on_headers_complete(self) -> None:
        exchange, parser = self.exchange, self._parser
        if exchange is None or parser is None or exchange.status:
            raise ValueError("a response nobody asked for")
        status: int = parser.get_status_code()
        if status < 200:
            if status < 100 or status == 101:
                raise ValueError("no such status, or a switch of protocols that nobody asked for")
            exchange.headers.clear()
            self._is_interim = True
            return
        self._is_interim = False
        exchange.status = status
        self._was_fed = True
        if has_no_body(exchange.method, status):
            self._is_reusable = parser.should_keep_alive()
            self._parser = httptools.HttpResponseParser(self)  # the old one may wait for a body
            exchange.is_complete = True
        else:
            exchange.needs_eof = not _is_framed(exchange.headers)
        if not exchange.head.done():
            exchange.head.set_result(None)

    def on_body(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None or exchange.is_complete:
            self._is_reusable = False
            return
        self._was_fed = True
        exchange.add(data)

    def on_message_complete(self) -> None:
        exchange, parser = self.exchange, self._parser
        if self._is_interim or exchange is None or parser is None or exchange.is_complete:
            return
        self._is_reusable = parser.should_keep_alive()
        exchange.is_complete = True

    def on_message_begin(self) -> None:
        if self.exchange is not None and self.exchange.is_complete:
            self._is_reusable = False  # surplus bytes

    # Ends.

    def _end(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.complete()
            self._is_reusable = self._is_reusable and exchange.is_sent
        if self._is_reusable and not self.transport.is_closing():
            self.transport.resume_reading()
            self._on_free(self)
        else:
            self.transport.abort()

    def _break(self, error: httpx.TransportError) -> None:
        exchange, self.exchange = self.exchange, None
        self.transport.abort()
        if exchange is not None:
            exchange.fail(error)


def _is_framed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the body's end can be told without the connection's."""
    for name, value in headers:
        lowered = name.lower()
        if lowered == b"content-length":
            return True
        if lowered == b"transfer-encoding" and value.rstrip().lower().endswith(b"chunked"):
            return True
    return False
