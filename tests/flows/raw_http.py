"""HTTP by hand: tests send exactly these bytes and look at exactly what came back."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.flows.server import RunningServer

ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """headers: as they came, names in lower case. body: as on the wire (chunks are not decoded)."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        """The one value; fails when the header came twice."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json()["error"]
        return found


def request_bytes(
    method: str,
    target: str,
    *headers: tuple[str, str],
    body: bytes = b"",
    version: str = "1.1",
    close: bool = True,
) -> bytes:
    """A whole request. Content-Length is added for a body, `Connection: close` unless asked otherwise."""
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":")[::2] for line in lines]
    return Answer(
        int(status_line.split(" ")[1]), [(name.lower(), value.strip()) for name, value in pairs], body
    )


async def ask(server: RunningServer, raw: bytes) -> Answer:
    """Send, read until the server closes."""
    reader, writer = await server.connect()
    try:
        writer.write(raw)
        return parse(await asyncio.wait_for(reader.read(), ANSWER_WITHIN_S))
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """One answer on a connection that stays open; it must say its length."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_WITHIN_S)
    length = parse(head).header("content-length")
    body = await asyncio.wait_for(reader.readexactly(int(length or 0)), ANSWER_WITHIN_S)
    return parse(head + body)


def unchunked(body: bytes) -> bytes:
    """A chunked body, whole and well-formed, without its framing."""
    out = b""
    while True:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        assert rest[length : length + 2] == b"\r\n", "broken chunk"
        if length == 0:
            assert rest == b"\r\n", "bytes behind the last chunk"
            return out
        out, body = out + rest[:length], rest[length + 2 :]
