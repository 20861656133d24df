"""A name with several addresses: the aiohttp transport brings this with it."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import httpx
import pytest

from relay.upstream.transports.address_guard import AddressGuard
from relay.upstream.transports.contract import AddressRefused
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import ScriptedUpstream, Send, ok
from tests.relay.upstream.transport_contract.conftest import LOOPBACK
from tests.relay.upstream.transport_contract.helpers import read_all


@pytest.fixture
async def fast(no_leaks):
    transport = HttptoolsTransport(LOOPBACK)
    yield transport
    await transport.aclose()


@contextlib.contextmanager
def deaf_address() -> Iterator[tuple[str, int]]:
    """Where a dial is neither taken nor refused."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()


@pytest.fixture
def resolved(monkeypatch):
    """What every name resolves to."""
    addresses: list[tuple[str, int]] = []

    async def resolve(self, host, port):
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", one) for one in addresses]

    monkeypatch.setattr(AddressGuard, "resolve", resolve)
    return addresses


def a_post() -> httpx.Request:
    return httpx.Request("POST", "http://upstream.test/", content=b"x")


async def test_an_address_that_does_not_answer_does_not_keep_the_next_one_waiting(fast, resolved):
    with deaf_address() as deaf:
        async with ScriptedUpstream([Send(ok(b"here"))]) as upstream:
            resolved += [deaf, ("127.0.0.1", upstream.port)]
            async with asyncio.timeout(2):
                response = await fast.handle_async_request(a_post())
                assert await read_all(response) == b"here"


async def test_an_address_that_is_not_allowed_is_passed_over_and_told_when_there_is_no_other(fast, resolved):
    resolved += [("10.0.0.1", 80), ("10.0.0.2", 80)]
    with pytest.raises(AddressRefused):
        await fast.handle_async_request(a_post())
    async with ScriptedUpstream([Send(ok(b"here"))]) as upstream:
        resolved[1:] = [("127.0.0.1", upstream.port)]
        response = await fast.handle_async_request(a_post())
        assert await read_all(response) == b"here"


async def test_the_connect_timeout_is_that_of_all_addresses_together(no_leaks, resolved):
    transport = HttptoolsTransport(LOOPBACK, connect_timeout_s=0.6)
    with deaf_address() as one, deaf_address() as other:
        resolved += [one, other]
        async with asyncio.timeout(1):
            with pytest.raises(httpx.ConnectTimeout):
                await transport.handle_async_request(a_post())
    await transport.aclose()
