"""A forward proxy: CONNECT tunnels and absolute-form requests, one request a connection."""

import asyncio
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class TinyProxy:
    """`seen` holds the request lines. refuse: the status line CONNECT is answered with instead of a tunnel."""

    def __init__(self, *, refuse: bytes | None = None) -> None:
        self.refuse = refuse
        self.seen: list[bytes] = []
        self.heads: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = raw.partition(b"\r\n")
        self.seen.append(line)
        self.heads.append(raw)
        method, target, version = line.split(b" ")
        if method == b"CONNECT":
            if self.refuse is not None:
                writer.write(self.refuse + b"\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            host, _, port = target.decode().rpartition(":")
            up_reader, up_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            url = urlsplit(target.decode())
            up_reader, up_writer = await asyncio.open_connection(url.hostname, url.port)
            up_writer.write(b" ".join([method, url.path.encode() or b"/", version]) + b"\r\n" + rest)
        copies = [
            asyncio.create_task(_copy(reader, up_writer)),
            asyncio.create_task(_copy(up_reader, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.wait(copies)
            up_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
