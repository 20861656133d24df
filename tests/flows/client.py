"""A client that speaks HTTP by hand: reads as far as the test wants, leaves politely or with a reset."""

import asyncio
import contextlib
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from tests.flows.raw_http import parse

PATIENCE_S = 10.0


@dataclass(slots=True)
class Heard:
    """What came back. body: without chunk framing. is_whole: the framing says that nothing is missing."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = field(default=b"", repr=False)
    is_whole: bool = False
    is_reset: bool = False

    def header(self, name: str) -> str | None:
        """The one value; fails when the header came twice."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json()["error"]

    @property
    def told_request_id(self) -> str | None:
        """As the error's body names it, wherever its dialect has it."""
        googles = (detail.get("requestId") for detail in self.error.get("details") or () if "@type" in detail)
        return (
            self.error.get("request_id") or self.json().get("request_id") or next(filter(None, googles), None)
        )

    @property
    def request_id(self) -> str:
        found = self.header("x-request-id")
        assert found, "no request id"
        return found

    @property
    def data(self) -> list[str]:
        """The data of each whole event."""
        blocks = self.body.decode().replace("\r\n", "\n").split("\n\n")[:-1]
        return [line[6:] for block in blocks for line in block.split("\n") if line.startswith("data: ")]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [orjson.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def is_done(self) -> bool:
        return bool(self.data) and self.data[-1] == "[DONE]"

    @property
    def stream_error(self) -> dict[str, Any] | None:
        """The in-band error, which must be the last event."""
        errors = [chunk["error"] for chunk in self.chunks if "error" in chunk]
        assert len(errors) <= 1
        assert not errors or "error" in self.chunks[-1], "something came behind the error"
        return errors[0] if errors else None

    @property
    def text(self) -> str:
        """The streamed text of all choices, or the content of a whole answer."""
        if not self.body.startswith(b"{"):
            choices = [choice for chunk in self.chunks for choice in chunk.get("choices") or []]
            return "".join(choice["delta"].get("content") or "" for choice in choices)
        return "".join(choice["message"]["content"] or "" for choice in self.json()["choices"])


class Call:
    """One request on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._raw = bytearray()
        self._is_reset = False
        self._has_left = False
        self.left_at = 0.0
        """time.monotonic() when the client left."""

    @classmethod
    async def begin(cls, host: str, port: int, request: bytes, *, receive_buffer: int | None = None) -> Self:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=65536)
        writer.write(request)
        return cls(reader, writer)

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def flushed(self) -> None:
        """Until most of what was sent is on its way. A connection that is gone: nothing."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    def forget(self) -> None:
        """What was read so far: the next answer begins here."""
        self._raw.clear()

    async def read_until(self, mark: bytes, within_s: float = PATIENCE_S) -> bytes:
        """Everything raw so far, once it holds `mark`."""
        async with asyncio.timeout(within_s):
            while mark not in self._raw:
                assert await self._more(), f"the answer ended without {mark!r}: {bytes(self._raw)[-300:]!r}"
        return bytes(self._raw)

    async def rest(self, within_s: float = PATIENCE_S) -> Heard:
        """Reads until the server closes; then leaves."""
        with contextlib.suppress(RuntimeError):  # it was never paused
            self._writer.transport.resume_reading()
        try:
            async with asyncio.timeout(within_s):
                while await self._more():
                    pass
        finally:
            self.leave()
        return self.heard()

    def heard(self) -> Heard:
        raw = bytes(self._raw)
        if b"\r\n\r\n" not in raw:
            return Heard(is_reset=self._is_reset)
        answer = parse(raw)
        heard = Heard(answer.status, answer.headers, answer.body, is_reset=self._is_reset)
        if heard.header("transfer-encoding") == "chunked":
            heard.body, heard.is_whole = _dechunked(answer.body)
        else:
            length = heard.header("content-length")
            heard.is_whole = length is not None and len(answer.body) == int(length)
        return heard

    def stop_reading(self) -> None:
        """Not even into the reader's buffer."""
        self._writer.transport.pause_reading()

    def leave(self) -> None:
        """FIN. Again: nothing."""
        if not self._has_left:
            self._has_left = True
            self.left_at = time.monotonic()
            self._writer.close()

    def reset(self) -> None:
        """RST: the process was killed, or a firewall cut in."""
        self._has_left = True
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.left_at = time.monotonic()
        self._writer.transport.abort()

    async def _more(self) -> bool:
        try:
            data = await self._reader.read(65536)
        except ConnectionError:
            self._is_reset = True
            return False
        self._raw += data
        return bool(data)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), 1)


def _dechunked(body: bytes) -> tuple[bytes, bool]:
    """As much as came of a chunked body, and whether its last chunk did."""
    out = b""
    while body:
        size, separator, rest = body.partition(b"\r\n")
        if not separator:
            break
        length = int(size, 16)
        if length == 0:
            return out, True
        out, body = out + rest[:length], rest[length + 2 :]
    return out, False
