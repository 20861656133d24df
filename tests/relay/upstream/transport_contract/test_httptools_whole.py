"""A body that has come whole is known to have: nobody need watch the time over it."""

import asyncio
from ipaddress import ip_network

import httpx
import pytest

from relay.upstream.transports.contract import BodyStream
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import ScriptedUpstream, Send, WaitFor, ok
from tests.relay.upstream.transport_contract.helpers import read_all


@pytest.fixture
async def transport(no_leaks):
    made = HttptoolsTransport([ip_network("127.0.0.0/8")])
    yield made
    await made.aclose()


async def test_a_body_in_one_piece_with_its_head(transport):
    async with ScriptedUpstream([Send(ok(b"all of it"))]) as upstream:
        response = await transport.handle_async_request(httpx.Request("POST", upstream.url, content=b"1"))
        assert isinstance(response.stream, BodyStream)
        assert response.stream.has_come_whole
        assert await read_all(response) == b"all of it"


async def test_a_body_that_lacks_a_byte(transport):
    whole = ok(b"all of it")
    rest = asyncio.Event()
    async with ScriptedUpstream([Send(whole[:-1]), WaitFor(rest), Send(whole[-1:])]) as upstream:
        response = await transport.handle_async_request(httpx.Request("POST", upstream.url, content=b"1"))
        assert isinstance(response.stream, BodyStream)
        assert not response.stream.has_come_whole
        rest.set()
        assert await read_all(response) == b"all of it"
        assert response.stream.has_come_whole
