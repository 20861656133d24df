"""Pooling, closing in every phase, many at once."""

import asyncio

import httpx
import pytest

from relay.upstream.transports.contract import DialPhase, DialTrace
from tests.fakes.scripted_upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Cut,
    Pause,
    Reset,
    ScriptedUpstream,
    Send,
    WaitLost,
    chunk,
    ok,
)
from tests.relay.upstream.transport_contract.helpers import body_of, read_all

EVENT = b'data: {"n": 1}\n\n'
WHOLE = [Send(SSE_HEAD + chunk(EVENT) + LAST_CHUNK)]
CLOSED_WITHIN_S = 0.1
DRAINED_WITHIN_S = 3.0
"""Likewise, when megabytes that were in flight must be read before the end is seen."""


async def test_finished_body_gives_the_connection_back(post, trace):
    async with ScriptedUpstream(WHOLE) as upstream:
        for n in range(4):
            assert await read_all(await post(upstream.url)) == EVENT
            assert trace.reused is (n > 0)
        assert len(upstream.connections) == 1


async def test_complete_but_unread_body_closes_without_harm(post):
    async with ScriptedUpstream(WHOLE) as upstream:
        response = await post(upstream.url)
        await asyncio.sleep(0.02)
        await body_of(response).aclose()
        assert await read_all(await post(upstream.url)) == EVENT


@pytest.mark.parametrize("end", [Cut(), Reset()], ids=["fin", "rst"])
async def test_connection_that_died_while_idle_is_not_used(post, trace, end):
    async with ScriptedUpstream([*WHOLE, Pause(0.01), end], WHOLE) as upstream:
        await read_all(await post(upstream.url))
        await asyncio.sleep(0.05)
        assert await read_all(await post(upstream.url)) == EVENT
        assert not trace.reused


async def test_idle_connection_is_closed_by_us(make_transport):
    quick = make_transport(idle_s=0.1)
    async with ScriptedUpstream(WHOLE) as upstream:
        await read_all(await quick.handle_async_request(httpx.Request("POST", upstream.url)))
        await asyncio.sleep(0.03)
        assert not upstream.connections[0].is_lost
        await upstream.connections[0].wait_lost(1)


async def test_expired_connection_is_not_used(make_transport, trace):
    quick = make_transport(idle_s=0.05)
    async with ScriptedUpstream(WHOLE) as upstream:
        for _ in range(2):
            request = httpx.Request("POST", upstream.url, extensions={"relay.trace": trace})
            await read_all(await quick.handle_async_request(request))
            assert not trace.reused
            await asyncio.sleep(0.07)


async def test_fresh_connection_is_dialled_although_one_is_idle(post, trace):
    async with ScriptedUpstream(WHOLE) as upstream:
        await read_all(await post(upstream.url))
        await read_all(await post(upstream.url, fresh_connection=True))
        assert not trace.reused
        assert upstream.requests[1].connection == 1


async def test_other_port_is_another_pool(post, trace):
    async with ScriptedUpstream(WHOLE) as one, ScriptedUpstream(WHOLE) as two:
        await read_all(await post(one.url))
        await read_all(await post(two.url))
        assert not trace.reused


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancel_while_dialling(make_transport):
    transport = make_transport()
    async with ScriptedUpstream() as upstream:  # the handshake is never answered
        request = httpx.Request("POST", f"https://localhost:{upstream.port}/", content=b"x")
        task = asyncio.create_task(transport.handle_async_request(request))
        await upstream.wait_connections(1)
        await cancelled(task)
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


async def test_cancel_while_uploading(post):
    async with ScriptedUpstream(reads_nothing=True) as upstream:
        task = asyncio.create_task(post(upstream.url, content=b"x" * 20_000_000))
        await upstream.wait_connections(1)
        await asyncio.sleep(0.05)
        await cancelled(task)
        connection = upstream.connections[0]
        connection.transport.resume_reading()  # what was in flight may be read; then the end must come
        await connection.wait_lost(DRAINED_WITHIN_S)
        assert upstream.requests == []


async def test_early_answer_to_a_stalled_upload(post, trace):
    """An upstream may refuse a body it does not want to read; the half-sent connection is not used again."""
    refusal = ok(b"too big", status=b"413 Too Large")
    async with ScriptedUpstream(on_accept=[Pause(0.05), Send(refusal)], reads_nothing=True) as upstream:
        for _ in range(2):
            response = await post(upstream.url, content=b"x" * 12_000_000)
            assert response.status_code == 413
            assert await read_all(response) == b"too big"
            assert not trace.reused
        for connection in upstream.connections:
            connection.transport.resume_reading()
            await connection.wait_lost(DRAINED_WITHIN_S)
        assert upstream.requests == []


async def test_cancel_while_a_streamed_upload_waits(post):
    async def parts():
        yield b"first"
        await asyncio.sleep(60)

    async with ScriptedUpstream() as upstream:
        task = asyncio.create_task(post(upstream.url, content=parts()))
        await upstream.wait_connections(1)
        await asyncio.sleep(0.02)
        await cancelled(task)
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("is_reused", [False, True], ids=["fresh", "reused"])
async def test_cancel_while_waiting_for_headers(post, trace, method, is_reused):
    scripts = ([WHOLE] if is_reused else []) + [[WaitLost()]]
    async with ScriptedUpstream(*scripts) as upstream:
        if is_reused:
            await read_all(await post(upstream.url))
        task = asyncio.create_task(
            post(upstream.url, method=method, content=b"x" if method == "POST" else None)
        )
        await upstream.wait_requests(len(scripts))
        await cancelled(task)
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)
        assert trace.reused is is_reused


@pytest.mark.parametrize("is_tls", [False, True], ids=["tcp", "tls"])
async def test_cancel_of_a_read_then_aclose(make_transport, tls_authority, is_tls):
    transport = make_transport(ssl_context=tls_authority.client_context())
    context = tls_authority.server_context() if is_tls else None
    async with ScriptedUpstream([Send(SSE_HEAD + chunk(EVENT)), WaitLost()], ssl_context=context) as upstream:
        response = await transport.handle_async_request(httpx.Request("POST", upstream.url, content=b"x"))
        stream = body_of(response)
        assert await stream.read_some() == EVENT
        task = asyncio.create_task(stream.read_some())
        await asyncio.sleep(0.02)
        await cancelled(task)
        await stream.aclose()
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


async def test_cancelled_read_loses_nothing(post):
    script = [Send(SSE_HEAD), Pause(0.05), Send(chunk(EVENT) + LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        stream = body_of(await post(upstream.url))
        task = asyncio.create_task(stream.read_some())
        await asyncio.sleep(0.01)
        await cancelled(task)
        assert await stream.read_some() == EVENT
        assert await stream.read_some() == b""
        await stream.aclose()


async def test_aclose_before_the_first_read(post):
    async with ScriptedUpstream([Send(SSE_HEAD), WaitLost()]) as upstream:
        await body_of(await post(upstream.url)).aclose()
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


async def test_aclose_with_a_full_buffer(post):
    script = [Send(SSE_HEAD), Send(chunk(b"x" * 65_536), times=1_000)]
    async with ScriptedUpstream(script) as upstream:
        stream = body_of(await post(upstream.url))
        await asyncio.sleep(0.1)
        await stream.aclose()
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


async def test_aclose_wakes_a_waiting_read(post):
    async with ScriptedUpstream([Send(SSE_HEAD), WaitLost()]) as upstream:
        stream = body_of(await post(upstream.url))
        task = asyncio.create_task(stream.read_some())
        await asyncio.sleep(0.01)
        await stream.aclose()
        with pytest.raises(httpx.ReadError):
            await asyncio.wait_for(task, 1)
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)


async def test_read_after_aclose_is_an_error_not_an_end(post):
    async with ScriptedUpstream([Send(SSE_HEAD + chunk(EVENT)), WaitLost()]) as upstream:
        stream = body_of(await post(upstream.url))
        await stream.read_some()
        await stream.aclose()
        with pytest.raises(httpx.ReadError):
            await stream.read_some()


async def test_transport_close_ends_running_streams(post, transport):
    async with ScriptedUpstream([Send(SSE_HEAD + chunk(EVENT)), WaitLost()]) as upstream:
        stream = body_of(await post(upstream.url))
        assert await stream.read_some() == EVENT
        await transport.aclose()
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)
        with pytest.raises(httpx.ReadError):
            await stream.read_some()
        await stream.aclose()


async def test_two_hundred_at_once(transport):
    async def one(url: str) -> bytes:
        trace = DialTrace()
        request = httpx.Request("POST", url, content=b"x", extensions={"relay.trace": trace})
        data = await read_all(await transport.handle_async_request(request))
        assert trace.phase is DialPhase.SENT
        return data

    script = [Send(SSE_HEAD), Pause(0.1), Send(chunk(EVENT) * 3), Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(upstream.url)) for _ in range(200)]
            assert {task.result() for task in tasks} == {EVENT * 3}
        assert len(upstream.connections) == 200  # none waited for another, all were used again


async def test_one_broken_neighbour_leaves_the_others_alone(transport):
    async with (
        ScriptedUpstream([Send(SSE_HEAD), Reset()]) as bad,
        ScriptedUpstream([Pause(0.05), *WHOLE]) as good,
    ):
        tasks = [
            asyncio.create_task(transport.handle_async_request(httpx.Request("POST", good.url, content=b"x")))
            for _ in range(5)
        ]
        response = await transport.handle_async_request(httpx.Request("POST", bad.url, content=b"x"))
        with pytest.raises(httpx.ReadError):
            await read_all(response)
        for task in tasks:
            assert await read_all(await task) == EVENT
