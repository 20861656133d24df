"""The one moment when a connection is ours but nothing was written: a WriteError, free to repeat."""

import httpx
import pytest

from relay.upstream.transports.aiohttp_transport import AiohttpTransport
from relay.upstream.transports.contract import DialPhase, DialTrace
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import ScriptedUpstream, Send, ok
from tests.relay.upstream.transport_contract.helpers import read_all


def cut_all(transport) -> None:
    match transport:
        case AiohttpTransport():
            for handler in transport._pooled.connector._acquired:
                handler.transport.abort()
        case HttptoolsTransport():
            for connection in transport._pool._all:
                connection.transport.abort()


class CuttingTrace(DialTrace):
    """Cuts the connection in the very step in which the request gets it from the pool."""

    def mark_connected(self, *, reused: bool) -> None:
        super().mark_connected(reused=reused)
        if reused:
            cut_all(self.transport)


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_connection_that_dies_between_pool_and_write(transport, method):
    trace = CuttingTrace()
    trace.transport = transport

    def request() -> httpx.Request:
        body = b"x" if method == "POST" else None
        return httpx.Request(method, upstream.url, content=body, extensions={"relay.trace": trace})

    async with ScriptedUpstream([Send(ok(b"one"))]) as upstream:
        await read_all(await transport.handle_async_request(request()))
        with pytest.raises(httpx.WriteError):
            await transport.handle_async_request(request())
        assert len(upstream.requests) == 1
    assert trace.reused
    assert trace.phase is DialPhase.CONNECTED
    assert trace.sent_at is None
