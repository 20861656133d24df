"""The protocol class on uvicorn's: closes the holes that uvicorn leaves to whoever connects.

uvicorn alone has no limit on a request's head, no timeout for a head or a body that stops coming, closes
politely on clients that never read, and loses the body behind an upgrade that nobody offers. Loaded by
name in worker processes, before Django is set up: must not import Django or anything that does.
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gateway.front.connection import BODY_FOLLOWS, EXTENSION, ClientConnection
from gateway.front.server import SHUTDOWN_NET_S
from relay.core.dialects.openai_chat.errors import error_body
from relay.core.errors import Refusal

HEAD_LIMIT_BYTES = 65_536
"""Request line and headers together."""
HEAD_TIMEOUT_S = 30.0
"""From the connection, or the next request's first byte, to a whole head."""
BODY_IDLE_TIMEOUT_S = 60.0
"""Between two pieces of a request body."""
BODY_TOTAL_TIMEOUT_S = 600.0
"""From a whole head to a whole body: a byte now and then is no upload."""
CLOSE_TIMEOUT_S = 60.0
"""A connection that we have closed, until the client has read what was left."""
LINGER_S = 2.0
"""A request refused by the protocol itself: until the client has read the answer."""

_UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings"})
_REFUSALS = {
    400: Refusal(400, "The request is not valid HTTP.", code="bad_request"),
    408: Refusal(408, "The request took too long to arrive.", code="request_timeout"),
    431: Refusal(431, f"The request head is larger than {HEAD_LIMIT_BYTES} bytes.", code="headers_too_large"),
}


class _HeadRefused(Exception):
    """Stops the parser; the connection has been dealt with."""


class _HeldHead:
    """Stands in for the transport of a cycle until a head's body is there: one segment instead of two.

    The event loop writes at once, and each write wakes the reader: this and the end that goes with the last
    piece took 43 µs off a stream of 477.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: "RelayCycle") -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head = b""

    def write(self, data: bytes) -> None:
        if not self._head:
            self._head = data
            return
        self._cycle.transport = self._transport
        self._transport.write(self._head + data)

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())


class RelayCycle(RequestResponseCycle):
    """One request and its answer."""

    transport: Any

    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        if BODY_FOLLOWS in message and self.scope["method"] != "HEAD":
            self.transport = _HeldHead(self)
        return super().send(message)


class CloseDelimitedCycle(RelayCycle):
    """An answer to an HTTP/1.0 client: such clients do not know chunks, the close ends the body."""

    is_delimited_by_close = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            if b"content-length" not in names:
                self.is_delimited_by_close = True
                self.chunked_encoding = False
        elif self.is_delimited_by_close:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)


class RelayProtocol(HttpToolsProtocol):
    """One client connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_head = False
        self._is_refused = False
        self._is_upgraded = False
        self._is_upgrade_ignored = False
        self._fed = b""
        self._fed_bytes = 0
        self._body_due = 0.0
        self._read_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self.connection = ClientConnection(transport)
        self._extensions: Any = {EXTENSION: self.connection}
        self._read_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_read_timer()
        for timer in (self._close_timer, self._drain_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.connection.lost()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # lingering: the client may still be sending what we have refused
        self._fed_bytes += len(data)
        self._fed = data
        super().data_received(data)
        self._fed = b""
        if self._is_refused or self._is_upgraded or self.transport.is_closing():
            return
        if not self._is_in_head:
            self._fed_bytes = 0
        elif self._fed_bytes > HEAD_LIMIT_BYTES:
            self._refuse(431)
        self._time_reading()

    def eof_received(self) -> None:
        super().eof_received()
        self._limit_closing()  # the transport closes by itself behind this call

    # What the parser says

    def on_message_begin(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.abort()  # pipelining: while uvicorn queues a request it does not see a disconnect
            raise _HeadRefused
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._is_in_head = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._cancel_read_timer()
        self._body_due = self.loop.time() + BODY_TOTAL_TIMEOUT_S
        if self._is_foreign_upgrade():
            self._is_upgrade_ignored = True  # parsed once more without it, see `_unsupported_upgrade_warning`
            return
        # What came since the head began bounds it: only a suspect is measured, header by header.
        if self._fed_bytes > HEAD_LIMIT_BYTES and self._head_bytes() > HEAD_LIMIT_BYTES:
            self._refuse(431)
            raise _HeadRefused
        super().on_headers_complete()
        if self.cycle is not None:
            is_old = self.scope["http_version"] == "1.0"
            self.cycle.__class__ = CloseDelimitedCycle if is_old else RelayCycle

    def on_message_complete(self) -> None:
        if not self._is_upgrade_ignored:
            super().on_message_complete()

    # What uvicorn does

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_closing()

    def shutdown(self) -> None:
        super().shutdown()
        grace_s = self.config.timeout_graceful_shutdown
        if self.transport.is_closing():
            self._limit_closing()
        elif grace_s is not None:
            self._drain_timer = self.loop.call_later(max(0, grace_s - SHUTDOWN_NET_S), self._end_upload)

    def timeout_keep_alive_handler(self) -> None:
        if self.connection.unsent():
            self.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Called when the parser has stopped behind a head that asks for an upgrade we do not offer.

        Such a wish is to be ignored (RFC 9110, 7.8), but the parser has dropped the body: a new one gets the
        head without the wish, and everything behind it.
        """
        stopped = sys.exc_info()[1]
        if not self._is_upgrade_ignored or stopped is None:  # CONNECT: there is no going on
            if self.cycle is not None:
                self.cycle.keep_alive = False
            return
        rest = self._fed[stopped.args[0] :]
        head = self._head_without_upgrade()
        self._is_upgrade_ignored = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        super().data_received(head + rest)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's text says less
        if not self.transport.is_closing():
            self._refuse(400)

    # Our own

    def abort(self) -> None:
        self.connection.abort()

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _is_foreign_upgrade(self) -> bool:
        parser = self.parser
        return parser.should_upgrade() and parser.get_method() != b"CONNECT" and not self._should_upgrade()

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name in _UPGRADE_HEADERS:
                continue
            kept = value
            if name == b"connection":
                tokens = (token.strip() for token in value.split(b","))
                kept = b", ".join(token for token in tokens if token.lower() not in _UPGRADE_HEADERS)
            lines.append(b"%b: %b" % (name, kept))
        return b"\r\n".join([*lines, b"", b""])

    def _refuse(self, status: int) -> None:
        """Answer without an application, half-close, and reset unless the client closes soon."""
        if self._is_refused:
            return
        self._is_refused = True
        self._cancel_read_timer()
        body = error_body(_REFUSALS[status], "")
        head = STATUS_LINE[status] + b"content-type: application/json\r\nconnection: close\r\n"
        self.transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._close_timer = self.loop.call_later(LINGER_S, self.abort)

    def _time_reading(self) -> None:
        """What the client still owes us has a deadline: a head by its first byte, a body by its last."""
        if self.cycle is None or self.cycle.response_complete:
            if self._read_timer is None:
                self._read_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_late)
            return
        self._cancel_read_timer()
        if self.cycle.more_body:
            left_s = max(0.0, self._body_due - self.loop.time())
            self._read_timer = self.loop.call_later(min(BODY_IDLE_TIMEOUT_S, left_s), self._body_late)

    def _head_late(self) -> None:
        self._read_timer = None
        if self._is_in_head:
            self._refuse(408)
        else:
            self.abort()

    def _body_late(self) -> None:
        self._read_timer = None
        if self.flow.read_paused:  # it is we who do not read
            self._read_timer = self.loop.call_later(BODY_IDLE_TIMEOUT_S, self._body_late)
        else:
            self.abort()

    def _end_upload(self) -> None:
        """The grace of a shutdown is over: what is still being sent will not be served."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.abort()

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _limit_closing(self) -> None:
        """A transport that closes waits for the last byte to be taken, for ever if need be."""
        if self._close_timer is None and self.connection.unsent():
            self._close_timer = self.loop.call_later(CLOSE_TIMEOUT_S, self._close_late)

    def _close_late(self) -> None:
        self._close_timer = None
        if self.transport.is_closing() and self.connection.unsent():
            self.abort()
