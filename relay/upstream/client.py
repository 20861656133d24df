"""Builds the one upstream transport of a process and event loop.

Must not import: Django.
"""

import ssl
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network

from relay.upstream.aiohttp_transport import AiohttpTransport
from relay.upstream.transport import CONNECT_TIMEOUT_S


class TransportKind(StrEnum):
    AIOHTTP = "aiohttp"


def build_transport(
    allowed_private_nets: Sequence[IPv4Network | IPv6Network],
    *,
    kind: TransportKind = TransportKind.AIOHTTP,  # noqa: ARG001 - one kind so far
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
) -> AiohttpTransport:
    """A transport that may dial the public internet and `allowed_private_nets`.

    connect_timeout_s: name look-up, TCP and TLS together. ssl_context: for private CAs. The caller calls
    `aclose` on the loop that used it.
    """
    return AiohttpTransport(
        allowed_private_nets, connect_timeout_s=connect_timeout_s, ssl_context=ssl_context
    )
