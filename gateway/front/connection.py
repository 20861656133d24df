"""The client's connection as the relay sees it: break it off, ask what is still on its way, who it is.

Our uvicorn protocol class puts a `ClientConnection` into the ASGI scope. Servers that do not (Daphne)
get one that can do nothing and knows nothing. Must not import Django.
"""

import array
import asyncio
import contextlib
import fcntl
import functools
import ipaddress
import socket
import struct
import termios
from collections.abc import Callable, Mapping
from typing import Any

EXTENSION = "relay.connection"
"""Key in `scope["extensions"]`."""

BODY_FOLLOWS = "relay.body_follows"
"""Key of an ASGI start message: its first piece of body comes in the same step. Other servers ignore it."""

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientConnection:
    """One TCP connection from a client. Outlives a request: keep-alive connections carry several."""

    __slots__ = ("_transport", "on_lost")

    def __init__(self, transport: asyncio.Transport | None) -> None:
        self._transport = transport
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection has gone, if `can_abort`; the running request's."""

    @classmethod
    def from_scope(cls, scope: Mapping[str, Any]) -> "ClientConnection":
        found = (scope.get("extensions") or {}).get(EXTENSION)
        return found if isinstance(found, cls) else cls(None)

    @property
    def can_abort(self) -> bool:
        """False: the server gives no hold on the connection, and nobody calls `on_lost`."""
        return self._transport is not None

    def abort(self) -> None:
        """Reset the connection now and throw away what is unsent. Safe to call twice.

        A plain close would wait for the unsent bytes for ever, and even a transport's abort leaves the
        kernel's buffer behind; the reset frees both.
        """
        if self._transport is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def lost(self) -> None:
        """The protocol says so."""
        if self.on_lost is not None:
            self.on_lost()

    def unsent(self) -> int:
        """Bytes written by us that the kernel has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def unacknowledged(self) -> int | None:
        """Bytes in the kernel that the client's side has not acknowledged. None: not known (or closed)."""
        if self._transport is None:
            return None
        queued = array.array("i", [0])
        try:
            fcntl.ioctl(self._socket().fileno(), termios.TIOCOUTQ, queued)
        except (OSError, ValueError):
            return None
        return queued[0]

    def _socket(self) -> socket.socket:
        found: socket.socket | None = None
        if self._transport is not None:
            found = self._transport.get_extra_info("socket")
        if found is None:
            raise OSError("no socket")
        return found


def client_address(scope: Mapping[str, Any], forwarded: str, trusted: Networks) -> str:
    """The address the request came from, "" where there is none (a UNIX socket).

    The socket's, unless that is a trusted proxy: then the right-most entry of `X-Forwarded-For` that is
    not trusted itself, because everything left of it is the sender's own claim.
    """
    peer = scope.get("client")
    address = str(peer[0]) if peer else ""
    if not trusted or not forwarded:
        return address
    return _forwarded_address(address, forwarded, trusted)


@functools.lru_cache(maxsize=1024)
def _forwarded_address(peer: str, forwarded: str, trusted: Networks) -> str:
    address = peer
    for entry in reversed(forwarded.split(",")):
        if not _is_within(address, trusted):
            return address
        named = _bare_address(entry)
        if named is None:  # nonsense, written by a proxy we trust: the proxy is the last thing we know
            return address
        address = named
    return address


def _bare_address(entry: str) -> str | None:
    """`1.2.3.4`, `1.2.3.4:80`, `[::1]:80`, `::1` → the address in its normal form, or None."""
    text = entry.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_within(text: str, networks: Networks) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address.version == network.version and address in network for network in networks)
