"""The sink of a body: offered what arrives while a read waits, and nothing else."""

import asyncio
from ipaddress import ip_network

import httpx
import pytest

from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import LAST_CHUNK, SSE_HEAD, Reset, ScriptedUpstream, Send, WaitFor, chunk


@pytest.fixture
async def fast(no_leaks):
    transport = HttptoolsTransport([ip_network("127.0.0.0/8")])
    yield transport
    await transport.aclose()


async def test_what_the_sink_takes_the_reader_does_not_see_and_what_it_leaves_it_does(fast):
    steps = [asyncio.Event() for _ in range(4)]
    script = [
        Send(SSE_HEAD + chunk(b"first")), WaitFor(steps[0]), Send(chunk(b"taken")), WaitFor(steps[1]),
        Send(chunk(b"left")), WaitFor(steps[2]), Send(chunk(b"last") + LAST_CHUNK),
    ]  # fmt: skip
    offered = []

    def sink(data: bytes) -> bool:
        offered.append(data)
        return data == b"taken"

    async with ScriptedUpstream(script) as upstream:
        response = await fast.handle_async_request(httpx.Request("POST", upstream.url, content=b"x"))
        body = response.stream
        assert await body.read_some() == b"first"
        body.sink = sink
        read = asyncio.create_task(body.read_some())
        await asyncio.sleep(0.01)
        steps[0].set()
        await asyncio.sleep(0.05)
        assert not read.done()
        steps[1].set()
        assert await read == b"left"
        assert offered == [b"taken", b"left"]
        read = asyncio.create_task(body.read_some())
        await asyncio.sleep(0.01)
        steps[2].set()
        assert await read == b"last"  # it came with the end: that is the reader's to see
        assert await body.read_some() == b""
        assert offered == [b"taken", b"left"]
        await body.aclose()


async def test_nothing_is_offered_while_nobody_reads(fast):
    go = asyncio.Event()
    script = [Send(SSE_HEAD + chunk(b"a")), WaitFor(go), Send(chunk(b"b")), Reset()]
    async with ScriptedUpstream(script) as upstream:
        response = await fast.handle_async_request(httpx.Request("POST", upstream.url, content=b"x"))
        response.stream.sink = lambda data: pytest.fail("offered")
        assert await response.stream.read_some() == b"a"
        go.set()
        await asyncio.sleep(0.05)
        assert await response.stream.read_some() == b"b"
        with pytest.raises(httpx.ReadError):
            await response.stream.read_some()
        await response.stream.aclose()
