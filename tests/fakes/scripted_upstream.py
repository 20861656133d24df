"""A raw-socket HTTP server that does exactly what its script says, and watches its clients.

Give it one script for each request (the last one repeats); a script is a sequence of steps. It speaks just
enough HTTP to find the end of a request. What it sends is up to the script: valid or not.

    async with ScriptedUpstream([Send(ok(b"hi"))], [Send(HEAD), Pause(1), Reset()]) as upstream:
        ... upstream.url ...
        assert upstream.requests[0].body == b"..."
        await upstream.connections[0].wait_lost(0.1)
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Send:
    """Write `data`, `times` over, waiting whenever the client does not read."""

    data: bytes
    times: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Go on when the test sets the event."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class WaitLost:
    """Go on when the client has gone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close politely (FIN)."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Close with an RST."""


Step = Send | Pause | WaitFor | WaitLost | Cut | Reset
Script = Sequence[Step]


@dataclass(slots=True)
class SeenRequest:
    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes
    connection: int


def ok(body: bytes = b"", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A response with a length."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def head(*headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A bare head; framing is up to `headers`."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


SSE_HEAD = head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked")
LAST_CHUNK = b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client, seen from the server."""

    def __init__(self, upstream: "ScriptedUpstream") -> None:
        self.upstream = upstream
        self.number = len(upstream.connections)
        self.sent_bytes = 0  # handed to the kernel
        self.transport: asyncio.Transport
        self._lost = asyncio.Event()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    async def wait_lost(self, within_s: float) -> None:
        """Fail unless the client closes within the time."""
        await asyncio.wait_for(self._lost.wait(), within_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.upstream.connections.append(self)
        self.transport.set_write_buffer_limits(high=65536)
        if self.upstream.reads_nothing:
            asyncio.get_running_loop().call_soon(self.transport.pause_reading)  # uvloop starts reading later
        self._task = asyncio.get_running_loop().create_task(self._serve(), name="scripted upstream")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def eof_received(self) -> bool:
        self._gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def stop(self) -> None:
        self.transport.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _gone(self) -> None:
        self._lost.set()
        self._arrived.set()
        self._writable.set()

    async def _serve(self) -> None:
        await self._play(self.upstream.on_accept)
        while not self.is_lost and not self.transport.is_closing():
            request = await self._read_request()
            if request is None:
                return
            self.upstream.requests.append(request)
            await self._play(self.upstream.next_script())

    async def _play(self, script: Script) -> None:
        for step in script:
            match step:
                case Send():
                    await self._send(step)
                case Pause():
                    await asyncio.sleep(step.seconds)
                case WaitFor():
                    await step.event.wait()
                case WaitLost():
                    await self._lost.wait()
                case Cut():
                    self.transport.close()
                case Reset():
                    self.reset()

    async def _send(self, step: Send) -> None:
        for _ in range(step.times):
            if self.is_lost:
                return
            self.transport.write(step.data)
            self.sent_bytes += len(step.data)
            await self._writable.wait()

    async def _read_request(self) -> SeenRequest | None:
        raw_head = await self._take_until(b"\r\n\r\n")
        if raw_head is None:
            return None
        first, *lines = raw_head[:-4].split(b"\r\n")
        method, target, _ = first.split(b" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if headers.get(b"transfer-encoding") == b"chunked":
            body = await self._read_chunked()
        else:
            body = await self._take(int(headers.get(b"content-length", b"0")))
        return None if body is None else SeenRequest(method, target, headers, body, self.number)

    async def _read_chunked(self) -> bytes | None:
        parts = []
        while (size_line := await self._take_until(b"\r\n")) is not None:
            data = await self._take(int(size_line, 16) + 2)
            if data is None:
                return None
            if len(data) == 2:
                return b"".join(parts)
            parts.append(data[:-2])
        return None

    async def _take_until(self, mark: bytes) -> bytes | None:
        while (end := self._buffer.find(mark)) < 0:
            if not await self._more():
                return None
        return await self._take(end + len(mark))

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if not await self._more():
                return None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _more(self) -> bool:
        if self.is_lost:
            return False
        self._arrived.clear()
        await self._arrived.wait()
        return not self.is_lost


class ScriptedUpstream:
    """The server. on_accept runs before any request is read; reads_nothing leaves requests in the kernel."""

    def __init__(
        self,
        *scripts: Script,
        on_accept: Script = (),
        reads_nothing: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.scripts = list(scripts)
        self.on_accept = on_accept
        self.reads_nothing = reads_nothing
        self.ssl_context = ssl_context
        self.requests: list[SeenRequest] = []
        self.connections: list[Connection] = []

    async def __aenter__(self) -> Self:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if self.reads_nothing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=listener, ssl=self.ssl_context)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self.connections:
            await connection.stop()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        scheme, host = ("https", "localhost") if self.ssl_context is not None else ("http", "127.0.0.1")
        return f"{scheme}://{host}:{self.port}"

    def next_script(self) -> Script:
        return self.scripts[min(len(self.requests), len(self.scripts)) - 1]

    async def wait_requests(self, count: int, within_s: float = 2) -> None:
        """Wait until `count` requests have come in whole."""
        async with asyncio.timeout(within_s):
            while len(self.requests) < count:
                await asyncio.sleep(0.002)

    async def wait_connections(self, count: int, within_s: float = 2) -> None:
        async with asyncio.timeout(within_s):
            while len(self.connections) < count:
                await asyncio.sleep(0.002)
