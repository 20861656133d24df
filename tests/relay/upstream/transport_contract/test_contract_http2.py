"""HTTP/2 channels: one connection, many streams, the same body stream and phases."""

import asyncio

import httpx
import pytest

from relay.upstream.transports.contract import DialPhase, DialTrace
from tests.fakes.tiny_http2 import TinyHttp2
from tests.relay.upstream.transport_contract.helpers import body_of, read_all

EVENTS = [b"data: %d\n\n" % n for n in range(5)]


@pytest.fixture
def send(make_transport, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())

    async def send(url: str, trace: DialTrace | None = None, **extensions) -> httpx.Response:
        marks = {f"relay.{name}": value for name, value in extensions.items()}
        request = httpx.Request(
            "POST", url, content=b"abc", extensions={"relay.http2": True, "relay.trace": trace} | marks
        )
        return await transport.handle_async_request(request)

    return send


@pytest.fixture
def h2_context(tls_authority):
    return tls_authority.server_context("h2")


async def test_events_come_one_by_one_and_phases_are_told(send, h2_context, trace):
    async with TinyHttp2(h2_context, EVENTS) as server:
        for is_reused in (False, True):
            response = await send(server.url, trace)
            assert trace.phase is DialPhase.SENT
            assert trace.reused is is_reused
            assert trace.connected_at <= trace.sent_at
            stream = body_of(response)
            assert [await stream.read_some() for _ in range(6)] == [*EVENTS, b""]
            await stream.aclose()
        assert server.bodies == [b"abc", b"abc"]
        assert len(server.connections) == 1


async def test_many_streams_share_one_connection(send, h2_context):
    async with TinyHttp2(h2_context, EVENTS) as server:
        await read_all(await send(server.url))

        async def one() -> bytes:
            return await read_all(await send(server.url))

        assert set(await asyncio.gather(*(one() for _ in range(50)))) == {b"".join(EVENTS)}
        assert len(server.connections) == 1


async def test_cancel_resets_one_stream_and_leaves_its_neighbour_alone(send, h2_context):
    async with TinyHttp2(h2_context, EVENTS) as server:
        await read_all(await send(server.url))
        neighbour = asyncio.create_task(send(server.url))
        silent = asyncio.create_task(send(server.url + "/silent"))
        await asyncio.sleep(0.02)
        silent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await silent
        await asyncio.sleep(0.05)
        assert len(server.resets) == 1  # the upstream was told at once, not when the connection ends
        assert await read_all(await neighbour) == b"".join(EVENTS)
        half_read = await send(server.url)
        await body_of(half_read).read_some()
        await body_of(half_read).aclose()
        await asyncio.sleep(0.05)
        assert len(server.resets) == 2
        assert await read_all(await send(server.url)) == b"".join(EVENTS)
        assert len(server.resets) == 2  # a finished stream is not reset
        assert len(server.connections) == 1


async def test_fresh_connection_is_its_own_and_closed_after_use(send, h2_context, trace):
    async with TinyHttp2(h2_context, EVENTS) as server:
        await read_all(await send(server.url))
        await read_all(await send(server.url, trace, fresh_connection=True))
        assert not trace.reused
        assert len(server.connections) == 2
        await asyncio.wait_for(server.connections[1].lost.wait(), 0.5)


async def test_lost_connection_is_a_read_error(send, h2_context):
    async with TinyHttp2(h2_context, EVENTS, pause_s=0.05) as server:
        stream = body_of(await send(server.url))
        await stream.read_some()
        server.connections[0].transport.abort()
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            while await stream.read_some():
                pass
        await stream.aclose()


async def test_refused_port_is_a_connect_error(send, h2_context, trace):
    async with TinyHttp2(h2_context, EVENTS) as server:
        url = server.url
    with pytest.raises(httpx.ConnectError):
        await send(url, trace)
    assert trace.phase is DialPhase.DIALING
