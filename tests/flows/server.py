"""A real server on loopback inside the test's own event loop: our settings, our protocol class, port 0."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from gateway.front import server as gateway_server


@dataclass(frozen=True, slots=True)
class RunningServer:
    """url: without a trailing slash. uvicorn: the server object, for tests that look inside."""

    host: str
    port: int
    uvicorn: uvicorn.Server

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection, for tests that speak HTTP by hand."""
        return await asyncio.open_connection(self.host, self.port)


@contextlib.asynccontextmanager
async def running_server(
    application: Any = "gateway.asgi:application",
    *,
    lifespan: str = "auto",
    grace_s: float = 5.0,
    **changes: Any,
) -> AsyncIterator[RunningServer]:
    """Serve `application` (import string or ASGI callable) until the block ends, then stop it cleanly.

    changes: attributes of uvicorn's Config to set, for example `timeout_keep_alive=1`. Fails when the
    server did not stop by itself within the grace.
    """
    config = gateway_server.build_config(application, lifespan=lifespan, grace_s=grace_s, log_level="warning")
    for name, value in changes.items():
        setattr(config, name, value)
    server = uvicorn.Server(config)
    listener = gateway_server.open_listener("127.0.0.1", 0)
    host, port = listener.getsockname()
    serving = asyncio.create_task(_serve(server, listener), name="test-server")
    try:
        while not server.started:
            if serving.done():
                serving.result()
                raise RuntimeError("the server ended while starting")
            await asyncio.sleep(0.005)
        yield RunningServer(host, port, server)
    finally:
        server.should_exit = True
        if not serving.done():
            await asyncio.wait_for(serving, grace_s + gateway_server.SHUTDOWN_NET_S + 5)


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    """A start that fails would end the whole test run: uvicorn leaves by SystemExit."""
    try:
        await server.serve(sockets=[listener])
    except SystemExit as error:
        raise RuntimeError(f"the server did not start: exit code {error.code}") from error
    finally:
        listener.close()
