"""Responses as upstreams send them: right, unusual, broken, cut."""

import asyncio
import tracemalloc
from contextlib import suppress

import httpx
import pytest

from tests.fakes.scripted_upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Cut,
    Pause,
    Reset,
    ScriptedUpstream,
    Send,
    WaitFor,
    WaitLost,
    chunk,
    head,
    ok,
)
from tests.relay.upstream.transport_contract.helpers import body_of, read_all, read_until_error

EVENT = b'data: {"n": 1}\n\n'


async def test_status_headers_and_body_arrive(post):
    script = [
        Send(ok(b'{"a": 1}', b"Content-Type: application/json", b"X-Two: 1", b"x-two: 2", status=b"201 Made"))
    ]
    async with ScriptedUpstream(script) as upstream:
        response = await post(upstream.url)
        assert response.status_code == 201
        assert response.headers["content-type"] == "application/json"
        assert response.headers.get_list("x-two") == ["1", "2"]
        assert await read_all(response) == b'{"a": 1}'


async def test_body_is_an_async_iterator_too(post):
    async with ScriptedUpstream([Send(ok(b"abc"))]) as upstream:
        response = await post(upstream.url)
        assert b"".join([part async for part in response.stream]) == b"abc"
        await response.aclose()


async def test_end_of_body_stays_the_end(post):
    async with ScriptedUpstream([Send(ok(b"abc"))]) as upstream:
        stream = body_of(await post(upstream.url))
        assert await stream.read_some() == b"abc"
        for _ in range(3):
            assert await stream.read_some() == b""
        await stream.aclose()
        await stream.aclose()


async def test_redirects_are_answers(post):
    async with ScriptedUpstream([Send(ok(b"", b"Location: /else", status=b"307 Elsewhere"))]) as upstream:
        response = await post(upstream.url)
        assert response.status_code == 307
        await read_all(response)
        assert len(upstream.requests) == 1


async def test_cookies_are_not_kept(post):
    async with ScriptedUpstream([Send(ok(b"", b"Set-Cookie: a=b; Path=/"))]) as upstream:
        for _ in range(2):
            await read_all(await post(upstream.url))
        assert b"cookie" not in upstream.requests[1].headers


async def test_first_chunk_comes_at_once(post):
    more = asyncio.Event()
    script = [Send(SSE_HEAD), WaitFor(more), Send(chunk(EVENT)), WaitLost()]
    async with ScriptedUpstream(script) as upstream:
        response = await post(upstream.url)  # headers alone are enough to return
        loop = asyncio.get_running_loop()
        began = loop.time()
        more.set()
        assert await body_of(response).read_some() == EVENT
        assert loop.time() - began < 0.05
        await body_of(response).aclose()


async def test_each_paced_chunk_is_a_read(post):
    steps = [step for n in range(5) for step in (Send(chunk(b"data: %d\n\n" % n)), Pause(0.01))]
    async with ScriptedUpstream([Send(SSE_HEAD), *steps, Send(LAST_CHUNK)]) as upstream:
        stream = body_of(await post(upstream.url))
        reads = [await stream.read_some() for _ in range(6)]
        assert reads == [b"data: %d\n\n" % n for n in range(5)] + [b""]
        await stream.aclose()


async def test_what_arrived_together_is_read_together(post):
    more = asyncio.Event()
    script = [Send(SSE_HEAD), WaitFor(more), Send(chunk(EVENT) * 20), Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        stream = body_of(await post(upstream.url))
        more.set()
        await asyncio.sleep(0.05)
        assert await stream.read_some() == EVENT * 20
        await stream.aclose()


@pytest.mark.parametrize("size", [1, 7])
async def test_response_in_tiny_pieces(post, size):
    raw = SSE_HEAD + chunk(EVENT) * 3 + b"0\r\nX-Sum: 1\r\n\r\n"
    pieces = [Send(raw[i : i + size]) for i in range(0, len(raw), size)]
    async with ScriptedUpstream(pieces) as upstream:
        response = await post(upstream.url)
        assert response.headers["content-type"] == "text/event-stream"
        assert await read_all(response) == EVENT * 3


async def test_interim_responses_are_skipped(post, trace):
    interim = head(status=b"100 Continue") + head(b"Link: </a>", status=b"103 Early Hints")
    async with ScriptedUpstream([Send(interim), Pause(0.02), Send(ok(b"final"))]) as upstream:
        response = await post(upstream.url)
        assert response.status_code == 200
        assert "link" not in response.headers
        assert await read_all(response) == b"final"
        await read_all(await post(upstream.url))
        assert trace.reused


async def test_trailers_end_the_body_and_keep_the_connection(post, trace):
    script = [Send(SSE_HEAD + chunk(EVENT) + b"0\r\nX-Checksum: abc\r\n\r\n")]
    async with ScriptedUpstream(script) as upstream:
        for is_reused in (False, True):
            response = await post(upstream.url)
            assert await read_all(response) == EVENT
            assert "x-checksum" not in response.headers
            assert trace.reused is is_reused


async def test_body_without_framing_ends_with_the_connection(post, trace):
    async with ScriptedUpstream([Send(head()), Send(EVENT), Pause(0.02), Send(EVENT), Cut()]) as upstream:
        assert await read_all(await post(upstream.url)) == EVENT * 2
        await read_all(await post(upstream.url))
        assert not trace.reused


async def test_reset_is_no_end_even_without_framing(post):
    async with ScriptedUpstream([Send(head() + EVENT), Pause(0.05), Reset()]) as upstream:
        data, error = await read_until_error(await post(upstream.url))
        assert data == EVENT
        assert isinstance(error, httpx.ReadError)


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
async def test_connection_close_is_heeded(post, trace, version):
    raw = ok(b"bye", b"Connection: close").replace(b"HTTP/1.1", version, 1)
    async with ScriptedUpstream([Send(raw)]) as upstream:
        for _ in range(2):
            assert await read_all(await post(upstream.url)) == b"bye"
            assert not trace.reused


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", b"200 OK"), ("POST", b"204 Empty"), ("GET", b"304 Same")]
)
async def test_responses_without_body_by_rule(post, trace, method, status):
    async with ScriptedUpstream(
        [Send(head(b"Content-Length: 10", b"Content-Encoding: gzip", status=status))]
    ) as upstream:
        for is_reused in (False, True):
            response = await post(upstream.url, content=None, method=method)
            assert response.status_code == int(status[:3])
            assert await read_all(response) == b""
            assert trace.reused is is_reused


async def test_empty_post_is_sent_and_marked(post, trace):
    async with ScriptedUpstream([Send(ok(b"x"))]) as upstream:
        response = await post(upstream.url, content=b"")
        assert trace.sent_at is not None
        assert upstream.requests[0].headers[b"content-length"] == b"0"
        await read_all(response)


async def test_event_of_twelve_megabytes(post):
    event = b"data: " + b"x" * 12_000_000 + b"\n\n"
    async with ScriptedUpstream([Send(SSE_HEAD + chunk(event)), Send(LAST_CHUNK)]) as upstream:
        assert await read_all(await post(upstream.url)) == event


async def test_header_of_32_kilobytes_is_fine(post):
    async with ScriptedUpstream([Send(ok(b"x", b"X-Big: " + b"a" * 32_000))]) as upstream:
        response = await post(upstream.url)
        assert len(response.headers["x-big"]) == 32_000
        await read_all(response)


BROKEN_HEADS = {
    "not-http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bad-status": b"HTTP/1.1 abc OK\r\n\r\n",
    "html": b"<html><body>502</body></html>\r\n\r\n",
    "header-without-colon": b"HTTP/1.1 200 OK\r\nbroken header line\r\n\r\n",
    "huge-header": head(b"Content-Length: 0", b"X-Huge: " + b"a" * 200_000),
    "endless-headers": b"HTTP/1.1 200 OK\r\n" + b"X-Many: abc\r\n" * 60_000 + b"\r\n",
    "two-lengths": head(b"Content-Length: 3", b"Content-Length: 5") + b"abcde",
    "negative-length": head(b"Content-Length: -3"),
    "length-and-chunked": head(b"Content-Length: 3", b"Transfer-Encoding: chunked")
    + b"3\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("raw", BROKEN_HEADS.values(), ids=BROKEN_HEADS)
async def test_broken_head_is_a_protocol_error(post, raw):
    async with ScriptedUpstream([Send(raw), WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await post(upstream.url)
        await upstream.connections[0].wait_lost(0.1)


@pytest.mark.parametrize(
    "raw", [b"xyz\r\nabc\r\n", b"5\r\nabcdefgh\r\n", b"-1\r\n\r\n"], ids=["size", "length", "sign"]
)
async def test_bad_chunk_beside_the_headers(post, raw):
    async with ScriptedUpstream([Send(SSE_HEAD + raw), WaitLost()]) as upstream:
        with pytest.raises(httpx.RemoteProtocolError):
            await read_all(await post(upstream.url))
        await upstream.connections[0].wait_lost(0.1)


async def test_bad_chunk_later_after_what_came_before(post):
    script = [
        Send(SSE_HEAD),
        Pause(0.02),
        Send(chunk(EVENT)),
        Pause(0.02),
        Send(b"xyz\r\nabc\r\n"),
        WaitLost(),
    ]
    async with ScriptedUpstream(script) as upstream:
        data, error = await read_until_error(await post(upstream.url))
        assert data == EVENT
        assert isinstance(error, httpx.RemoteProtocolError)
        await upstream.connections[0].wait_lost(0.1)


@pytest.mark.parametrize("end", [Cut(), Reset()], ids=["fin", "rst"])
@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 200", SSE_HEAD[:-2]], ids=["nothing", "half-line", "half-head"]
)
async def test_closed_before_the_headers_were_complete(post, trace, end, before):
    async with ScriptedUpstream([Send(before), Pause(0.02), end]) as upstream:
        with pytest.raises(httpx.ReadError):
            await post(upstream.url)
        assert len(upstream.requests) == 1  # and it was not repeated
        assert not trace.reused


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
async def test_closed_before_headers_on_a_reused_connection_is_ambiguous(post, trace, method):
    async with ScriptedUpstream([Send(ok(b"one"))], [Cut()]) as upstream:
        await read_all(await post(upstream.url))
        with pytest.raises(httpx.ReadError):
            await post(upstream.url, method=method)
        assert trace.reused
        assert len(upstream.requests) == 2  # whatever the method: repeating is not the transport's business


CUT_BODIES = {
    "length": head(b"Content-Length: 100"),
    "chunked": SSE_HEAD,
    "chunk-half": SSE_HEAD + b"ff\r\n",
}


@pytest.mark.parametrize("pause", [Pause(0), Pause(0.03)], ids=["at-once", "later"])
@pytest.mark.parametrize("end", [Cut(), Reset()], ids=["fin", "rst"])
@pytest.mark.parametrize("kind", CUT_BODIES)
async def test_cut_body_gives_what_came_then_a_read_error(post, kind, end, pause):
    if isinstance(end, Reset):
        pause = Pause(0.03)  # an RST may overtake what the kernel holds: give the bytes time
    body = EVENT if kind != "chunked" else chunk(EVENT)
    async with ScriptedUpstream([Send(CUT_BODIES[kind] + body), pause, end]) as upstream:
        response = await post(upstream.url)
        await asyncio.sleep(0.06)  # a slow reader meets bytes and failure together
        data, error = await read_until_error(response)
        assert data == EVENT
        assert isinstance(error, httpx.ReadError)


async def test_failure_is_repeated_on_the_next_read(post):
    async with ScriptedUpstream([Send(SSE_HEAD), Reset()]) as upstream:
        stream = body_of(await post(upstream.url))
        for _ in range(2):
            with pytest.raises(httpx.ReadError):
                await stream.read_some()
        await stream.aclose()


async def test_surplus_bytes_spoil_the_connection(post, trace):
    async with ScriptedUpstream([Send(ok(b"abc")), Pause(0.02), Send(b"surplus")]) as upstream:
        for _ in range(2):
            response = await post(upstream.url)
            await asyncio.sleep(0.04)
            assert await read_all(response) == b"abc"
            assert not trace.reused
        assert len(upstream.connections) == 2


async def test_surplus_beside_the_answer_is_never_reused(post, trace):
    """One segment with an answer and more: the answer or a protocol error, but never the same connection again."""
    async with ScriptedUpstream([Send(ok(b"abc") + b"surplus")]) as upstream:
        for _ in range(2):
            with suppress(httpx.RemoteProtocolError):
                assert await read_all(await post(upstream.url)) == b"abc"
            assert not trace.reused
        assert len(upstream.connections) == 2


async def test_second_answer_sent_ahead_is_never_taken(post, trace):
    """An upstream that answers a request nobody made must not answer the next one."""
    async with ScriptedUpstream(
        [Send(ok(b"one")), Pause(0.02), Send(ok(b"evil"))], [Send(ok(b"two"))]
    ) as upstream:
        assert await read_all(await post(upstream.url)) == b"one"
        await asyncio.sleep(0.05)
        assert await read_all(await post(upstream.url)) == b"two"
        assert not trace.reused


async def test_reader_that_does_not_read_holds_the_upstream_back(post):
    script = [Send(SSE_HEAD), Send(chunk(b"x" * 65_536), times=1_600), Send(LAST_CHUNK)]  # 100 MB
    async with ScriptedUpstream(script) as upstream:
        stream = body_of(await post(upstream.url))
        await asyncio.sleep(0.3)
        connection = upstream.connections[0]
        held_at = connection.sent_bytes
        await asyncio.sleep(0.2)
        assert connection.sent_bytes == held_at < 30_000_000  # the kernel's share
        total = 0
        tracemalloc.start()
        while data := await stream.read_some():
            total += len(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == 1_600 * 65_536
        assert peak < 8_000_000
        await stream.aclose()
