"""The factory: which implementation, and that it is usable."""

from ipaddress import ip_network

import httpx
import pytest

from relay.upstream.transports.aiohttp_transport import AiohttpTransport
from relay.upstream.transports.build import TransportKind, build_transport
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.scripted_upstream import ScriptedUpstream, Send, ok
from tests.relay.upstream.transport_contract.helpers import read_all


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, HttptoolsTransport),
        ({"kind": TransportKind.HTTPTOOLS}, HttptoolsTransport),
        ({"kind": TransportKind.AIOHTTP}, AiohttpTransport),
    ],
)
async def test_kind_decides(no_leaks, options, expected):
    transport = build_transport([ip_network("127.0.0.0/8")], **options)
    assert isinstance(transport, expected)
    await transport.start()
    async with ScriptedUpstream([Send(ok(b"hi"))]) as upstream:
        assert (
            await read_all(await transport.handle_async_request(httpx.Request("POST", upstream.url))) == b"hi"
        )
    await transport.aclose()
