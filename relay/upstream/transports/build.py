"""Builds the one upstream transport of a process and event loop.

Must not import: Django.
"""

import ssl
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import assert_never

from relay.upstream.transports.aiohttp_transport import AiohttpTransport
from relay.upstream.transports.contract import CONNECT_TIMEOUT_S, RelayTransport
from relay.upstream.transports.httptools_transport import HttptoolsTransport


class TransportKind(StrEnum):
    """Two implementations of one contract: see tests/relay/upstream/transport_contract."""

    HTTPTOOLS = "httptools"  # a quarter of the CPU; proxies and HTTP/2 go through AIOHTTP all the same
    AIOHTTP = "aiohttp"  # the reference


def build_transport(
    allowed_private_nets: Sequence[IPv4Network | IPv6Network],
    *,
    kind: TransportKind = TransportKind.HTTPTOOLS,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
) -> RelayTransport:
    """A transport that may dial the public internet and `allowed_private_nets`.

    connect_timeout_s: name look-up, TCP and TLS together. ssl_context: for private CAs. Not started: call
    `start` on the loop that will use it, and `aclose` on the same.
    """
    match kind:
        case TransportKind.HTTPTOOLS:
            return HttptoolsTransport(
                allowed_private_nets, connect_timeout_s=connect_timeout_s, ssl_context=ssl_context
            )
        case TransportKind.AIOHTTP:
            return AiohttpTransport(
                allowed_private_nets, connect_timeout_s=connect_timeout_s, ssl_context=ssl_context
            )
        case _:
            assert_never(kind)
