"""Chooses the upstream transport of a process."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from relay.upstream.aiohttp_transport import AiohttpTransport
from relay.upstream.transport import RelayTransport


def build_transport(allowed_private_nets: Sequence[IPv4Network | IPv6Network]) -> RelayTransport:
    """Not started: call `start` on the loop that will use it."""
    return AiohttpTransport(allowed_private_nets)
