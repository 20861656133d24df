"""Clients for the rehearsals: one that notes every line and comment, and many that never read."""

import asyncio
import select
import socket
import time
from contextlib import suppress

import httptools

SMALL_BUFFER = 4096  # the kernel must not swallow the firehose for them
# Reset and hang-up are always reported; a plain close behind unread data only with RDHUP.
ENDED = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def request_bytes(host: str, path: str, key: str, body: bytes) -> bytes:
    """One POST as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class QuietClient(asyncio.Protocol):
    """Sends its request when connected and notes when each event and each comment came (monotonic seconds)."""

    def __init__(self, request: bytes) -> None:
        self._request, self._parser, self._rest = request, httptools.HttpResponseParser(self), b""
        self._transport: asyncio.Transport | None = None
        self.asked_at = 0.0
        self.status = 0
        self.events: list[float] = []
        self.comments: list[float] = []
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self.asked_at = time.monotonic()
            transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        *lines, self._rest = (self._rest + body).split(b"\n")
        now = time.monotonic()
        for line in lines:
            if line.startswith(b":"):
                self.comments.append(now)
            elif line.startswith(b"data:"):
                self.events.append(now)

    def comment_gaps(self) -> list[float]:
        """For each comment: seconds since the line before it."""
        marks = sorted([(at, False) for at in self.events] + [(at, True) for at in self.comments])
        return [at - marks[n - 1][0] for n, (at, is_comment) in enumerate(marks) if is_comment and n]

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class StuckClients:
    """Sockets that ask and never read. `look` notes which of them the server has ended meanwhile."""

    def __init__(self, host: str, port: int, request: bytes) -> None:
        self._address, self._request = (host, port), request
        self._poll = select.poll()
        self._open: dict[int, tuple[socket.socket, float]] = {}
        self.ended_after: list[float] = []

    def open_one(self) -> None:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        client.settimeout(10)
        client.connect(self._address)
        client.sendall(self._request)
        self._open[client.fileno()] = (client, time.monotonic())
        self._poll.register(client.fileno(), ENDED)

    def look(self) -> None:
        for descriptor, _ in self._poll.poll(0):
            client, asked_at = self._open.pop(descriptor)
            self._poll.unregister(descriptor)
            self.ended_after.append(time.monotonic() - asked_at)
            client.close()

    def close(self) -> list[float]:
        """Closes what is still open; returns how long each ended one lasted, seconds."""
        for client, _ in self._open.values():
            with suppress(OSError):
                client.close()
        self._open.clear()
        return self.ended_after
