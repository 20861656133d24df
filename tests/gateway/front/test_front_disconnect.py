"""A client that leaves is noticed within 100 ms in every phase, once, and is nobody's crash."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable

import pytest

from tests.flows import views
from tests.flows.raw_http import request_bytes
from tests.flows.server import RunningServer

NOTICED_WITHIN_S = 0.1


@pytest.fixture(params=["close", "reset"])
def leave(request: pytest.FixtureRequest) -> Callable[[socket.socket], None]:
    def leave(client: socket.socket) -> None:
        if request.param == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    return leave


async def until_heard(line: str, within_s: float = 5.0) -> float:
    """Seconds until a view said so."""
    started = time.monotonic()
    while line not in views.heard:
        assert time.monotonic() - started < within_s, f"{line} was not heard: {views.heard}"
        await asyncio.sleep(0.002)
    return time.monotonic() - started


def connect(server: RunningServer, target: str) -> socket.socket:
    client = socket.create_connection((server.host, server.port))
    client.sendall(request_bytes("GET", target, close=False))
    return client


@pytest.fixture
def nothing_is_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        yield
    assert not [record.getMessage() for record in caplog.records], "leaving is no error"


async def test_before_the_response_the_view_is_cancelled(
    front: RunningServer, leave: Callable[[socket.socket], None], nothing_is_logged: None
) -> None:
    client = connect(front, "/v1/wait")
    await until_heard("waiting")
    leave(client)
    assert await until_heard("cancelled") < NOTICED_WITHIN_S
    await asyncio.sleep(0.05)
    assert views.heard == ["waiting", "cancelled"]


async def test_between_chunks(
    front: RunningServer, leave: Callable[[socket.socket], None], nothing_is_logged: None
) -> None:
    client = connect(front, "/v1/tick?count=100&pause_ms=5000")
    await until_heard("transmitting")
    await asyncio.sleep(0.05)
    leave(client)
    assert await until_heard("client_left") < NOTICED_WITHIN_S
    await until_heard("stopped")
    assert views.heard == ["transmitting", "client_left", "stopped"], "told once"


async def test_blocked_in_send(front: RunningServer, nothing_is_logged: None) -> None:
    """The client does not read, so the write waits; then it resets. (A half-close is not seen: see below.)"""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((front.host, front.port))
    client.sendall(request_bytes("GET", "/v1/tick?count=1000&size=60000&pause_ms=0", close=False))
    await until_heard("transmitting")
    await asyncio.sleep(0.2)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert await until_heard("client_left") < NOTICED_WITHIN_S
    await until_heard("stopped")
    assert views.heard.count("client_left") == 1


async def test_while_the_body_is_still_coming_no_view_runs(
    front: RunningServer, leave: Callable[[socket.socket], None], nothing_is_logged: None
) -> None:
    client = socket.create_connection((front.host, front.port))
    client.sendall(request_bytes("POST", "/v1/echo", ("Content-Length", "100"), close=False) + b"part")
    await asyncio.sleep(0.05)
    leave(client)
    deadline = time.monotonic() + 2
    while front.uvicorn.server_state.tasks:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_complete_answer_is_no_leaving(front: RunningServer) -> None:
    """The server says "disconnect" after a complete answer as well."""
    client = connect(front, "/v1/tick?count=2&pause_ms=1")
    await asyncio.sleep(0.2)
    client.close()
    await asyncio.sleep(0.1)
    assert [line.split()[0] for line in views.heard] == ["transmitting", "done"]


async def test_a_request_that_lingers_does_not_make_the_next_one_deaf(
    front: RunningServer, nothing_is_logged: None
) -> None:
    """The same connection carries the next request while the last one's writer is still busy."""
    reader, writer = await front.connect()
    writer.write(request_bytes("GET", "/v1/linger", close=False))
    await reader.readuntil(b"0\r\n\r\n")
    views.heard.clear()
    writer.write(request_bytes("GET", "/v1/tick?count=100&pause_ms=5000", close=False))
    await until_heard("lingered")
    assert views.heard[0] == "transmitting", "the second began before the first was over"
    await asyncio.sleep(0.02)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    assert await until_heard("client_left") < NOTICED_WITHIN_S
    await until_heard("stopped")


async def test_a_body_that_nobody_reads_does_not_hide_the_leaving(
    front: RunningServer, leave: Callable[[socket.socket], None], nothing_is_logged: None
) -> None:
    client = socket.create_connection((front.host, front.port))
    client.sendall(request_bytes("POST", "/v1/unread", ("Content-Length", "100"), close=False) + b"part")
    await until_heard("transmitting")
    leave(client)
    assert await until_heard("client_left") < NOTICED_WITHIN_S
    await until_heard("stopped")


async def test_django_streaming_response_is_ended_too(front: RunningServer) -> None:
    """Its generator would otherwise be consumed for ever."""
    client = connect(front, "/v1/generator")
    await until_heard("generating")
    await asyncio.sleep(0.05)
    client.close()
    assert await until_heard("generator closed") < 1.0


async def test_view_that_answers_although_cancelled(front: RunningServer, nothing_is_logged: None) -> None:
    client = connect(front, "/v1/stubborn")
    await until_heard("waiting")
    client.close()
    await until_heard("client_left")
    await until_heard("stopped")
    assert views.heard.count("client_left") == 1
