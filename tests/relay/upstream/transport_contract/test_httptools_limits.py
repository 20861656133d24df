"""What the httptools transport must bound by itself, where aiohttp brings limits of its own."""

import asyncio
from ipaddress import ip_network

import httpx
import pytest

from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import (
    SSE_HEAD,
    Cut,
    Pause,
    ScriptedUpstream,
    Send,
    WaitLost,
    chunk,
    head,
    ok,
)
from tests.relay.upstream.transport_contract.helpers import read_all, read_until_error


@pytest.fixture
async def fast(no_leaks):
    transport = HttptoolsTransport([ip_network("127.0.0.0/8")])
    yield transport
    await transport.aclose()


def a_post(upstream: ScriptedUpstream) -> httpx.Request:
    return httpx.Request("POST", upstream.url, content=b"x")


@pytest.mark.parametrize(
    "flood",
    [
        Send(b"HTTP/1.1 200 OK\r\nX-Endless: " + b"a" * 1_000_000),
        Send(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", times=40_000),
        Send(b"H" * 400_000),
    ],
    ids=["one-endless-line", "interim-flood", "no-line-at-all"],
)
async def test_endless_head_is_cut(fast, flood):
    async with ScriptedUpstream([flood, WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await asyncio.wait_for(fast.handle_async_request(a_post(upstream)), 5)
        await upstream.connections[0].wait_lost(0.1)


@pytest.mark.parametrize(
    "flood",
    [
        Send(b"0\r\nX-Trailer: " + b"a" * 1_000_000),
        Send(b"0\r\n" + b"X-T: abc\r\n" * 100_000),
        Send(b"5;ext=" + b"a" * 1_000_000),
    ],
    ids=["endless-trailer", "many-trailers", "endless-extension"],
)
async def test_endless_framing_is_cut(fast, flood):
    async with ScriptedUpstream([Send(SSE_HEAD + chunk(b"abc")), Pause(0.02), flood, WaitLost()]) as upstream:
        data, error = await read_until_error(await fast.handle_async_request(a_post(upstream)))
        assert data == b"abc"
        assert isinstance(error, httpx.RemoteProtocolError)
        await upstream.connections[0].wait_lost(0.1)


@pytest.mark.parametrize("surplus", [b"surplus", ok(b"evil")], ids=["rubbish", "answer"])
async def test_answer_with_surplus_in_one_segment_is_delivered_and_not_reused(fast, surplus):
    async with ScriptedUpstream([Send(ok(b"abc") + surplus)]) as upstream:
        for _ in range(2):
            assert await read_all(await fast.handle_async_request(a_post(upstream))) == b"abc"
        assert len(upstream.connections) == 2


async def test_switching_protocols_is_refused(fast):
    raw = head(b"Connection: Upgrade", b"Upgrade: websocket", status=b"101 Switching Protocols")
    async with ScriptedUpstream([Send(raw), WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await fast.handle_async_request(a_post(upstream))


async def test_offer_to_upgrade_is_ignored(fast):
    async with ScriptedUpstream([Send(ok(b"abc", b"Connection: Upgrade", b"Upgrade: h2c"))]) as upstream:
        assert await read_all(await fast.handle_async_request(a_post(upstream))) == b"abc"


async def test_end_of_an_unread_connection_is_seen_before_it_is_used(fast):
    """The loop was too busy to notice the FIN: the pool asks the kernel before it hands a connection out."""
    async with ScriptedUpstream([Send(ok(b"one")), Cut()], [Send(ok(b"two"))]) as upstream:
        assert await read_all(await fast.handle_async_request(a_post(upstream))) == b"one"
        (idle,) = next(iter(fast._pool._idle.values()))
        idle.transport.pause_reading()  # stands for a busy loop
        await asyncio.sleep(0.05)
        assert await read_all(await fast.handle_async_request(a_post(upstream))) == b"two"
        assert len(upstream.connections) == 2


async def test_failing_body_source_tears_the_request(fast):
    async def parts():
        yield b"first"
        raise LookupError("the client left")

    async with ScriptedUpstream([Send(ok())]) as upstream:
        with pytest.raises(httpx.ReadError):
            await fast.handle_async_request(httpx.Request("POST", upstream.url, content=parts()))
        await upstream.connections[0].wait_lost(0.1)
        assert upstream.requests == []


@pytest.mark.parametrize("status", [b"099", b"000", b"101"])
async def test_a_status_that_is_none_is_not_taken_for_an_interim_answer(fast, status):
    """The parser lets it pass; waiting for the real answer would last until the header timer."""
    async with ScriptedUpstream([Send(b"HTTP/1.1 " + status + b" Odd\r\n\r\n"), WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await asyncio.wait_for(fast.handle_async_request(a_post(upstream)), 5)
