"""An HTTP/2 server over TLS: answers each POST with `events`, paced, on as few connections as clients like."""

import asyncio
import ssl
from contextlib import suppress
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions


class TinyHttp2:
    """`resets` lists the streams clients cancelled; a target of `/silent` is never answered."""

    def __init__(self, ssl_context: ssl.SSLContext, events: list[bytes], pause_s: float = 0.01) -> None:
        self.ssl_context = ssl_context
        self.events = events
        self.pause_s = pause_s
        self.connections: list[Http2Connection] = []
        self.resets: list[int] = []
        self.bodies: list[bytes] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Http2Connection(self), "127.0.0.1", 0, ssl=self.ssl_context
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"https://localhost:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self.connections:
            await connection.stop()


class Http2Connection(asyncio.Protocol):
    def __init__(self, server: TinyHttp2) -> None:
        self.server = server
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.targets: dict[int, bytes] = {}
        self.received: dict[int, bytes] = {}
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.connections.append(self)
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        for task in self.tasks.values():
            task.cancel()

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.RequestReceived():
                    headers = {bytes(k, "ascii") if isinstance(k, str) else k: v for k, v in event.headers}
                    self.targets[event.stream_id] = headers[b":path"]
                    self.received[event.stream_id] = b""
                case h2.events.DataReceived():
                    self.received[event.stream_id] += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self.server.bodies.append(self.received[event.stream_id])
                    self.tasks[event.stream_id] = asyncio.get_running_loop().create_task(
                        self.answer(event.stream_id)
                    )
                case h2.events.StreamReset():
                    self.server.resets.append(event.stream_id)
                    if event.stream_id in self.tasks:
                        self.tasks[event.stream_id].cancel()
        self.flush()

    async def answer(self, stream_id: int) -> None:
        if self.targets[stream_id] == b"/silent":
            return
        with suppress(h2.exceptions.ProtocolError):
            self.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
            self.flush()
            for event in self.server.events:
                await asyncio.sleep(self.server.pause_s)
                self.h2.send_data(stream_id, event)
                self.flush()
            self.h2.end_stream(stream_id)
            self.flush()

    async def stop(self) -> None:
        self.transport.abort()
        for task in self.tasks.values():
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks.values())
