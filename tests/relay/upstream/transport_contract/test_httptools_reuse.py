"""A connection that is given on belongs to its new owner alone."""

import asyncio
from ipaddress import ip_network

import httpx
import pytest

from relay.upstream.transports.httptools_connection import Connection
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import ScriptedUpstream, Send, ok
from tests.relay.upstream.transport_contract.helpers import read_all


@pytest.fixture
async def transport(no_leaks):
    made = HttptoolsTransport([ip_network("127.0.0.0/8")])
    yield made
    await made.aclose()


async def test_who_leaves_as_the_answer_comes_does_not_cut_the_next_request(transport, monkeypatch):
    """The whole answer arrives, the next request takes the connection, and only then the first one's task runs."""
    answers = asyncio.Event()
    feed = Connection.data_received

    def feed_and_leave(connection: Connection, data: bytes) -> None:
        if answers.is_set():
            feed(connection, data)
            return
        answers.set()  # the next one's task is woken before the first one's
        feed(connection, data)
        first.cancel()

    async def ask_next() -> httpx.Response:
        await answers.wait()
        return await transport.handle_async_request(httpx.Request("POST", upstream.url, content=b"2"))

    monkeypatch.setattr(Connection, "data_received", feed_and_leave)
    async with ScriptedUpstream([Send(ok(b"first"))], [Send(ok(b"second"))]) as upstream:
        second = asyncio.create_task(ask_next())
        first = asyncio.create_task(
            transport.handle_async_request(httpx.Request("POST", upstream.url, content=b"1"))
        )
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await read_all(await second) == b"second"
        assert len(upstream.connections) == 1
