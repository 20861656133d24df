"""Content codings, proxies and HTTP/2."""

import asyncio
import gzip
import zlib

import httpx
import pytest

from relay.upstream.transports.contract import AddressRefused, DialPhase
from tests.fakes.scripted_upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Cut,
    Pause,
    ScriptedUpstream,
    Send,
    WaitFor,
    WaitLost,
    chunk,
    head,
    ok,
)
from tests.fakes.tiny_proxy import TinyProxy
from tests.relay.upstream.transport_contract.helpers import body_of, read_all, read_until_error

EVENTS = b"".join(b'data: {"n": %d}\n\n' % n for n in range(50))


def raw_deflate(data: bytes) -> bytes:
    squeezer = zlib.compressobj(wbits=-15)
    return squeezer.compress(data) + squeezer.flush()


CODED = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"x-gzip", gzip.compress),
    "two-members": (b"gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "deflate": (b"deflate", zlib.compress),
    "raw-deflate": (b"deflate", raw_deflate),
    "identity": (b"identity", bytes),
}


@pytest.mark.parametrize("piece", [1, 17, 100_000])
@pytest.mark.parametrize("kind", CODED)
async def test_compressed_body_is_decoded(post, trace, kind, piece):
    coding, squeeze = CODED[kind]
    raw = squeeze(EVENTS)
    pieces = [Send(chunk(raw[i : i + piece])) for i in range(0, len(raw), piece)]
    coded_head = head(b"Content-Encoding: " + coding, b"Transfer-Encoding: chunked", b"X-Kept: 1")
    async with ScriptedUpstream([Send(coded_head), *pieces, Send(LAST_CHUNK)]) as upstream:
        response = await post(upstream.url)
        assert await read_all(response) == EVENTS
        assert response.headers["x-kept"] == "1"
        await read_all(await post(upstream.url))
        assert trace.reused


async def test_headers_of_the_compressed_form_are_dropped(post):
    async with ScriptedUpstream([Send(ok(gzip.compress(b"abc"), b"Content-Encoding: GZIP"))]) as upstream:
        response = await post(upstream.url)
        assert "content-encoding" not in response.headers
        assert "content-length" not in response.headers
        assert await read_all(response) == b"abc"


async def test_compressed_events_come_one_by_one(post):
    squeezer = zlib.compressobj(wbits=31)
    first = squeezer.compress(b"data: 1\n\n") + squeezer.flush(zlib.Z_SYNC_FLUSH)
    second = squeezer.compress(b"data: 2\n\n") + squeezer.flush()
    more = asyncio.Event()
    coded_head = head(b"Content-Encoding: gzip", b"Transfer-Encoding: chunked")
    async with ScriptedUpstream(
        [Send(coded_head + chunk(first)), WaitFor(more), Send(chunk(second) + LAST_CHUNK)]
    ) as upstream:
        stream = body_of(await post(upstream.url))
        assert await asyncio.wait_for(stream.read_some(), 1) == b"data: 1\n\n"
        more.set()
        assert await stream.read_some() == b"data: 2\n\n"
        assert await stream.read_some() == b""
        await stream.aclose()


async def test_bomb_comes_in_bounded_steps(post):
    bomb = gzip.compress(bytes(50_000_000))
    async with ScriptedUpstream([Send(ok(bomb, b"Content-Encoding: gzip"))]) as upstream:
        stream = body_of(await post(upstream.url))
        sizes = []
        while data := await stream.read_some():
            sizes.append(len(data))
        assert sum(sizes) == 50_000_000
        assert max(sizes) <= 262_144
        await stream.aclose()


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, br", b"gzip, gzip", b"nonsense"])
async def test_unknown_coding_is_a_protocol_error_at_the_head(post, coding):
    async with ScriptedUpstream([Send(head(b"Content-Encoding: " + coding)), WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await post(upstream.url)
        await upstream.connections[0].wait_lost(0.1)


@pytest.mark.parametrize(
    "body",
    [b"not gzip at all", gzip.compress(EVENTS)[:-12], gzip.compress(EVENTS)[:40] + b"\xff" * 99],
    ids=["plain", "short", "spoilt"],
)
async def test_broken_coding_is_a_protocol_error(post, body):
    async with ScriptedUpstream([Send(ok(body, b"Content-Encoding: gzip"))]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await read_all(await post(upstream.url))


async def test_reset_inside_a_compressed_body_stays_a_read_error(post):
    raw = gzip.compress(EVENTS)
    async with ScriptedUpstream(
        [Send(head(b"Content-Encoding: gzip", b"Content-Length: 999") + raw[:30]), Pause(0.02), Cut()]
    ) as upstream:
        _, error = await read_until_error(await post(upstream.url))
        assert isinstance(error, httpx.ReadError)


async def test_plain_request_through_a_proxy(post, trace):
    async with TinyProxy() as proxy, ScriptedUpstream([Send(ok(b"via"))]) as upstream:
        assert await read_all(await post(upstream.url + "/v1/x", proxy=proxy.url)) == b"via"
        assert proxy.seen == [b"POST %b/v1/x HTTP/1.1" % upstream.url.encode()]
        assert upstream.requests[0].target == b"/v1/x"
        assert trace.phase is DialPhase.SENT


async def test_proxy_credentials_go_to_the_proxy_only(post):
    async with TinyProxy() as proxy, ScriptedUpstream([Send(ok(b"via"))]) as upstream:
        await read_all(await post(upstream.url, proxy=proxy.url.replace("//", "//user:secret@")))
        assert b"proxy-authorization: basic dxnlcjpzzwnyzxq=" in proxy.heads[0].lower()


async def test_tls_request_through_a_proxy(make_transport, trace, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())
    async with (
        TinyProxy() as proxy,
        ScriptedUpstream([Send(ok(b"via"))], ssl_context=tls_authority.server_context()) as upstream,
    ):
        request = httpx.Request(
            "POST", upstream.url, content=b"x", extensions={"relay.trace": trace, "relay.proxy": proxy.url}
        )
        assert await read_all(await transport.handle_async_request(request)) == b"via"
        assert proxy.seen == [b"CONNECT localhost:%d HTTP/1.1" % upstream.port]


async def test_proxy_that_refuses_the_tunnel_is_a_connect_error(make_transport, trace, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())
    async with TinyProxy(refuse=b"HTTP/1.1 403 Forbidden") as proxy, ScriptedUpstream() as upstream:
        request = httpx.Request(
            "POST",
            f"https://localhost:{upstream.port}/",
            content=b"x",
            extensions={"relay.trace": trace, "relay.proxy": proxy.url},
        )
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(request)
        assert upstream.connections == []
    assert trace.phase is DialPhase.DIALING


@pytest.mark.parametrize("target", ["10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]"])
async def test_private_target_behind_a_proxy_is_refused(post, target):
    async with TinyProxy() as proxy:
        with pytest.raises(AddressRefused):
            await post(f"http://{target}/", proxy=proxy.url)
        assert proxy.seen == []


async def test_private_proxy_is_refused(make_transport):
    transport = make_transport(())
    async with TinyProxy() as proxy:
        request = httpx.Request(
            "POST", "http://93.184.216.34/", content=b"x", extensions={"relay.proxy": proxy.url}
        )
        with pytest.raises(AddressRefused):
            await transport.handle_async_request(request)
        assert proxy.seen == []


async def test_environment_proxies_are_ignored(post, monkeypatch):
    async with TinyProxy() as proxy, ScriptedUpstream([Send(ok(b"direct"))]) as upstream:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert await read_all(await post(upstream.url)) == b"direct"
        assert await read_all(await post(upstream.url, http2=True)) == b"direct"
        assert proxy.seen == []


async def test_http2_falls_back_to_http1_without_alpn(make_transport, trace, tls_authority):
    transport = make_transport(ssl_context=tls_authority.client_context())
    script = [Send(SSE_HEAD + chunk(EVENTS) + LAST_CHUNK)]
    async with ScriptedUpstream(script, ssl_context=tls_authority.server_context("http/1.1")) as upstream:
        for is_reused in (False, True):
            request = httpx.Request(
                "POST", upstream.url, content=b"x", extensions={"relay.trace": trace, "relay.http2": True}
            )
            assert await read_all(await transport.handle_async_request(request)) == EVENTS
            assert trace.phase is DialPhase.SENT
            assert trace.sent_at is not None
            assert trace.reused is is_reused
