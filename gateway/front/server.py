"""The HTTP server: uvicorn behind a protocol class that closes its holes, its sockets and its processes.

uvicorn alone has no limit on a request's head, no timeout for a head or a body that stops coming, and
closes politely on clients that never read. Loaded by name in worker processes, before Django is set up:
must not import Django or anything that does.
"""

import asyncio
import contextlib
import math
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.supervisors import Multiprocess

from gateway.front.connection import EXTENSION, ClientConnection
from relay.core.dialects.openai_chat.errors import error_body
from relay.core.errors import Refusal

HEAD_LIMIT_BYTES = 65_536
"""Request line and headers together."""
HEAD_TIMEOUT_S = 30.0
"""From the connection, or the next request's first byte, to a whole head."""
BODY_IDLE_TIMEOUT_S = 60.0
"""Between two pieces of a request body."""
KEEP_ALIVE_TIMEOUT_S = 75
"""Longer than the usual 60 s of load balancers, so that they and not we close an idle connection."""
CLOSE_TIMEOUT_S = 60.0
"""A connection that we have closed, until the client has read what was left."""
LINGER_S = 2.0
"""A request refused by the protocol itself: until the client has read the answer."""
SEND_BUFFER_BYTES = 131_072
"""Small: what the kernel takes looks served, although nobody reads it."""
BACKLOG = 4096
SHUTDOWN_NET_S = 5
"""Beyond the grace: what has not ended by then is cancelled."""
PARENT_POLL_S = 0.5

_REFUSALS = {
    400: Refusal(400, "The request is not valid HTTP.", code="bad_request"),
    408: Refusal(408, "The request took too long to arrive.", code="request_timeout"),
    431: Refusal(431, f"The request head is larger than {HEAD_LIMIT_BYTES} bytes.", code="headers_too_large"),
}


class _HeadRefused(Exception):
    """Stops the parser; the connection has been dealt with."""


class CloseDelimitedCycle(RequestResponseCycle):
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
        self._fed_bytes = 0
        self._read_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self.connection = ClientConnection(transport)
        self._extensions: Any = {EXTENSION: self.connection}
        self._read_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_read_timer()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.connection.lost()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # lingering: the client may still be sending what we have refused
        self._fed_bytes += len(data)
        super().data_received(data)
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
        # What came since the head began bounds it: only a suspect is measured, header by header.
        if self._fed_bytes > HEAD_LIMIT_BYTES and self._head_bytes() > HEAD_LIMIT_BYTES:
            self._refuse(431)
            raise _HeadRefused
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.cycle is not None:
            self.cycle.__class__ = CloseDelimitedCycle

    # What uvicorn does

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_closing()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._limit_closing()

    def timeout_keep_alive_handler(self) -> None:
        if self.connection.unsent():
            self.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Served as plain HTTP (h2c, say); the parser cannot go on behind it, so the connection ends."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's text says less
        if not self.transport.is_closing():
            self._refuse(400)

    # Our own

    def abort(self) -> None:
        self.connection.abort()

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

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
            self._read_timer = self.loop.call_later(BODY_IDLE_TIMEOUT_S, self._body_late)

    def _head_late(self) -> None:
        self._read_timer = None
        if self._is_in_head:
            self._refuse(408)
        else:
            self.abort()

    def _body_late(self) -> None:
        self._read_timer = None
        if self.flow.read_paused:  # it is we who do not read
            self._time_reading()
        else:
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


def open_listener(host: str, port: int) -> socket.socket:
    """A bound TCP socket; connections inherit its options. Raises OSError: port taken, bad address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def build_config(
    application: Any,
    *,
    workers: int = 1,
    log_level: str = "info",
    grace_s: float = 60.0,
    lifespan: Any = "on",
) -> uvicorn.Config:
    """The settings we run uvicorn with.

    application: import string `module:name` (workers need one) or object. grace_s: how long streams drain.
    """
    return uvicorn.Config(
        application,
        loop="uvloop",
        http="gateway.front.server:RelayProtocol",
        lifespan=lifespan,
        workers=workers,
        log_config=None,
        log_level=log_level.lower(),
        access_log=False,
        proxy_headers=False,  # on by default, and trusts loopback: TRUSTED_PROXIES decides
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=math.ceil(grace_s) + SHUTDOWN_NET_S,
    )


def run(config: uvicorn.Config, listener: socket.socket) -> None:
    """Serve until a signal: in this process, or in `config.workers` supervised ones."""
    if config.workers > 1:
        Multiprocess(config, [listener]).run()
    else:
        uvicorn.Server(config).run(sockets=[listener])


def watch_parent(on_orphaned: Callable[[], object], give_up_after_s: float) -> None:
    """In a worker process: call `on_orphaned`, from a thread, when the parent has gone. Else nothing.

    A parent that is killed outright cannot stop its workers; they would go on and hold the port. One that
    has not ended `give_up_after_s` later is ended the hard way.
    """
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return
    watcher = threading.Thread(
        target=_poll_parent, args=(parent.pid, on_orphaned, give_up_after_s), name="parent-watch", daemon=True
    )
    watcher.start()


def _poll_parent(pid: int, on_orphaned: Callable[[], object], give_up_after_s: float) -> None:
    while os.getppid() == pid:
        time.sleep(PARENT_POLL_S)
    with contextlib.suppress(RuntimeError):  # the loop is closed: the worker is ending anyway
        on_orphaned()
    time.sleep(give_up_after_s)
    os._exit(1)
