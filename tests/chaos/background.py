"""What must go on whatever a test waits for: the upstream, and the ways to the stores, on a loop of their own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from gateway.simulator.received import Received
from gateway.simulator.server import Simulator

T = TypeVar("T")


def held_port() -> tuple[socket.socket, int]:
    """A socket that keeps its port from being given to others, and the port. As long as nobody listens there
    (with SO_REUSEADDR), connections are refused.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]


class Gate:
    """A relay on loopback to a server that can be shut: connections are reset, new ones refused."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._held, self.port = held_port()

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def hush(self) -> None:
        """Connections stay, nothing passes: a transaction that is under way stays there."""
        self._flows.clear()

    async def open(self) -> None:
        """For the first time, or again."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port, reuse_address=True, backlog=1000
            )
        self._flows.set()

    async def aclose(self) -> None:
        await self.shut()
        self._held.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        ends = {writer, there_writer}
        self._writers |= ends
        copies = [
            asyncio.create_task(self._copy(reader, there_writer)),
            asyncio.create_task(self._copy(there_reader, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.wait(copies)
            self._writers -= ends
            there_writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()


class Background:
    """A thread with a loop. `upstream` and the gates live on it; ask them through `run`, or read plain values.

    gate: the way to the database. worker_gate: that of the worker to Redis.
    """

    def __init__(self, database: tuple[str, int], redis: tuple[str, int]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-background", daemon=True)
        self.upstream = Simulator(kept_requests=100_000)
        self.gate, self.worker_gate = Gate(*database), Gate(*redis)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self.upstream.start())
        self.run(self.gate.open())
        self.run(self.worker_gate.open())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.gate.aclose())
        self.run(self.worker_gate.aclose())
        self.run(self.upstream.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def reached(self, prefix: str = "") -> list[str]:
        """Names of the requests that the upstream was sent, as `load` marks them, each as often as it came."""
        return [name for one in tuple(self.upstream.requests) if (name := name_of(one)).startswith(prefix)]

    def most_at_once(self, prefix: str) -> int:
        """How many of these requests the upstream had in hand at the same moment, at most."""
        own = [one for one in tuple(self.upstream.requests) if name_of(one).startswith(prefix)]
        steps = [(one.at, 1) for one in own]
        steps += [(end, -1) for one in own if (end := one.finished_at or one.left_at) is not None]
        most = now = 0
        for _, step in sorted(steps):
            now += step
            most = max(most, now)
        return most


def name_of(received: Received) -> str:
    """The first word of what the user says, or of what is to be drawn."""
    said = received.json.get("prompt")
    messages = received.json.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[0], dict):
        said = messages[0].get("content")
    return said.split()[0] if isinstance(said, str) and said else ""
