"""Until the request is sent: every failure says for certain that nothing left us."""

import asyncio
import socket
import time

import httpx
import pytest

from relay.upstream.transports.contract import AddressRefused, DialPhase
from tests.fakes.scripted_upstream import Cut, Reset, ScriptedUpstream, Send, WaitLost, ok
from tests.relay.upstream.transport_contract.helpers import read_all


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


async def test_refused_port_is_a_connect_error(post, trace):
    with pytest.raises(httpx.ConnectError) as caught:
        await post(f"http://127.0.0.1:{free_port()}/")
    assert not isinstance(caught.value, AddressRefused)
    assert trace.phase is DialPhase.DIALING
    assert trace.connected_at is None


async def test_unknown_name_is_a_connect_error(post, trace):
    with pytest.raises(httpx.ConnectError):
        await post("http://no-such-host.invalid/")
    assert trace.phase is DialPhase.DIALING


async def test_connect_timeout_when_the_backlog_is_full(post, trace):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        try:
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            await asyncio.sleep(0.05)
            began = time.monotonic()
            with pytest.raises(httpx.ConnectTimeout):
                await post(f"http://127.0.0.1:{address[1]}/", connect_timeout_s=0.2)
            assert 0.15 < time.monotonic() - began < 1
        finally:
            for filler in fillers:
                filler.close()
    assert trace.phase is DialPhase.DIALING


async def test_connect_timeout_covers_the_tls_handshake(make_transport, trace, tls_authority):
    transport = make_transport(connect_timeout_s=0.2, ssl_context=tls_authority.client_context())
    async with ScriptedUpstream() as upstream:  # accepts, never answers the handshake
        request = httpx.Request(
            "POST", f"https://localhost:{upstream.port}/", extensions={"relay.trace": trace}
        )
        with pytest.raises(httpx.ConnectTimeout):
            await transport.handle_async_request(request)
        await upstream.connections[0].wait_lost(0.1)
    assert trace.phase is DialPhase.DIALING


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.1.2.3"])
@pytest.mark.parametrize("is_http2", [False, True])
async def test_private_address_is_refused_without_a_packet(make_transport, trace, target, is_http2):
    transport = make_transport(())
    async with ScriptedUpstream([Send(ok())]) as upstream:
        request = httpx.Request(
            "POST",
            f"http://{target}:{upstream.port}/",
            content=b"x",
            extensions={"relay.trace": trace, "relay.http2": is_http2},
        )
        with pytest.raises(AddressRefused):
            await transport.handle_async_request(request)
        assert upstream.connections == []
    assert trace.phase is DialPhase.DIALING


async def test_allowed_net_lets_a_name_through(post, trace):
    async with ScriptedUpstream([Send(ok(b"in"))]) as upstream:
        response = await post(f"http://localhost:{upstream.port}/")
        assert await read_all(response) == b"in"


@pytest.mark.parametrize(
    "header", [("X-A", "b\r\nX-Evil: 1"), ("X-A", "b\nc"), ("X\r\nB", "c"), ("X-A", "b\x00")]
)
async def test_header_that_breaks_out_is_refused_before_dialling(post, header):
    async with ScriptedUpstream([Send(ok())]) as upstream:
        with pytest.raises(httpx.LocalProtocolError):
            await post(upstream.url, headers=[header])
        assert upstream.requests == []


async def test_untrusted_certificate_is_a_connect_error(post, trace, tls_authority):
    async with ScriptedUpstream([Send(ok())], ssl_context=tls_authority.server_context()) as upstream:
        with pytest.raises(httpx.ConnectError):
            await post(upstream.url)
        assert upstream.requests == []
    assert trace.phase is DialPhase.DIALING


async def test_wrong_name_on_the_certificate_is_a_connect_error(make_transport, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())
    async with ScriptedUpstream([Send(ok())], ssl_context=tls_authority.server_context()) as upstream:
        request = httpx.Request("POST", f"https://127.0.0.2:{upstream.port}/", content=b"x")
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(request)


async def test_tls_round_trip_and_reuse(make_transport, trace, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())
    async with ScriptedUpstream([Send(ok(b"safe"))], ssl_context=tls_authority.server_context()) as upstream:
        for is_reused in (False, True):
            request = httpx.Request(
                "POST", upstream.url, content=b"x" * 300_000, extensions={"relay.trace": trace}
            )
            assert await read_all(await transport.handle_async_request(request)) == b"safe"
            assert trace.reused is is_reused
        assert len(upstream.connections) == 1
        assert len(upstream.requests[1].body) == 300_000


@pytest.mark.parametrize("end", [Cut(), Reset()], ids=["fin", "rst"])
async def test_closed_on_accept_is_never_taken_for_an_answer(post, trace, end):
    """The dial worked, so whether our bytes arrived is unknown: a read error, not a connect error."""
    async with ScriptedUpstream([Send(ok())], on_accept=[end]) as upstream:
        with pytest.raises((httpx.ReadError, httpx.WriteError)) as caught:
            await post(upstream.url)
        assert upstream.requests == []
    if isinstance(caught.value, httpx.WriteError):
        assert trace.phase is DialPhase.CONNECTED


async def test_trace_of_a_fresh_request(post, trace):
    async with ScriptedUpstream([Send(ok())]) as upstream:
        began = time.monotonic()
        response = await post(upstream.url)
        assert trace.phase is DialPhase.SENT
        assert trace.reused is False
        assert began <= trace.connected_at <= trace.sent_at <= time.monotonic()
        await read_all(response)


async def test_trace_of_a_request_without_body(post, trace):
    async with ScriptedUpstream([Send(ok(b"list"))]) as upstream:
        response = await post(upstream.url, content=None, method="GET")
        assert trace.phase is DialPhase.SENT
        assert trace.sent_at is not None
        assert await read_all(response) == b"list"


async def test_upload_that_stalls_is_sent_only_when_it_is_through(post, trace):
    async with ScriptedUpstream([WaitLost()], reads_nothing=True) as upstream:
        task = asyncio.create_task(post(upstream.url, content=b"x" * 12_000_000))
        await upstream.wait_connections(1)
        await asyncio.sleep(0.1)
        assert trace.phase is DialPhase.SENT  # the upstream may hold the first part
        assert trace.sent_at is None  # but the header timer has not begun
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_large_upload_arrives_whole(post, trace):
    body = bytes(range(256)) * 40_000
    async with ScriptedUpstream([Send(ok(b"got it"))]) as upstream:
        assert await read_all(await post(upstream.url, content=body)) == b"got it"
        assert upstream.requests[0].body == body
        assert trace.sent_at is not None


async def test_streamed_upload_is_chunked(post, trace):
    async def parts():
        yield b"first "
        await asyncio.sleep(0)
        yield b"second"

    async with ScriptedUpstream([Send(ok(b"got it"))]) as upstream:
        assert await read_all(await post(upstream.url, content=parts())) == b"got it"
        assert upstream.requests[0].body == b"first second"
        assert upstream.requests[0].headers[b"transfer-encoding"] == b"chunked"
        assert trace.sent_at is not None


async def test_head_is_sent_as_given(post):
    async with ScriptedUpstream([Send(ok())]) as upstream:
        response = await post(
            upstream.url + "/v1/a%2Fb//c?x=1%20&y=%C3%BC",
            headers=[("Authorization", "Bearer abc"), ("X-Two", "1"), ("Content-Type", "application/json")],
        )
        await read_all(response)
        (seen,) = upstream.requests
    assert seen.target == b"/v1/a%2Fb//c?x=1%20&y=%C3%BC"
    assert seen.headers[b"host"] == upstream.url.removeprefix("http://").encode()
    assert seen.headers[b"accept-encoding"] == b"identity"
    assert seen.headers[b"authorization"] == b"Bearer abc"
    assert set(seen.headers) == {
        b"host",
        b"accept-encoding",
        b"authorization",
        b"x-two",
        b"content-type",
        b"content-length",
    }


async def test_closed_transport_sends_nothing(post, transport):
    async with ScriptedUpstream([Send(ok())]) as upstream:
        await transport.aclose()
        with pytest.raises(httpx.ConnectError):
            await post(upstream.url)
        assert upstream.connections == []
