"""Which addresses may be dialled, checked on the very address that is dialled.

Names are resolved first and the result is checked, so a public name that points inwards gets nowhere,
and neither does a name that changes between check and dial.

Must not import: Django, a concrete transport.
"""

import asyncio
import errno
import ipaddress
import socket
import time
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import httpx

from relay.core.url_guard import is_allowed_address
from relay.upstream.aio_tasks import spawn
from relay.upstream.transports.contract import AddressRefused, port_of

AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]

_DNS_TTL_S = 10.0
_DNS_MAX_NAMES = 1000


class AddressBlockedError(OSError):
    """An address the guard refuses. The text is fixed: several refusals in a row stay recognisable."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "address not allowed")


class AddressGuard:
    """Checks addresses against the public internet plus `allowed_private_nets`; resolves with a short cache.

    Bound to one event loop by use (look-ups in flight are shared tasks).
    """

    def __init__(self, allowed_private_nets: Sequence[IPv4Network | IPv6Network]) -> None:
        self._nets = tuple(allowed_private_nets)
        self._known: dict[tuple[str, int], tuple[float, list[AddrInfo]]] = {}
        self._running: dict[tuple[str, int], asyncio.Task[list[AddrInfo] | OSError]] = {}

    def check(self, address: str) -> None:
        """Raise AddressBlockedError unless the IP literal `address` may be dialled."""
        if not is_allowed_address(address.partition("%")[0], self._nets):
            raise AddressBlockedError

    def socket_for(self, addr_info: AddrInfo) -> socket.socket:
        """A socket for one resolved address, or AddressBlockedError: fits aiohttp's `socket_factory`."""
        family, kind, proto, _, sockaddr = addr_info
        self.check(str(sockaddr[0]))
        return socket.socket(family, kind, proto)

    async def resolve(self, host: str, port: int) -> list[AddrInfo]:
        """Every address of `host`, unchecked, in the resolver's order. Errors: OSError (gaierror)."""
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        key = (host, port)
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = spawn(self._look_up(key), name=f"resolve port {port}")
        found = await asyncio.shield(task)
        if isinstance(found, OSError):
            raise found
        return found

    async def check_url(self, url: httpx.URL, *, timeout_s: float, may_be_unknown: bool) -> None:
        """Check every address of the URL's host, for routes on which somebody else dials (proxy, HTTP/2).

        may_be_unknown: a name this host cannot resolve passes, because a proxy will resolve it.
        Errors: AddressRefused, ConnectTimeout after timeout_s seconds, ConnectError for an unknown name.
        """
        try:
            async with asyncio.timeout(timeout_s):
                for info in await self.resolve(url.host, port_of(url)):
                    self.check(str(info[4][0]))
        except AddressBlockedError as error:
            raise AddressRefused("upstream address is not allowed") from error
        except TimeoutError as error:
            raise httpx.ConnectTimeout("name look-up took too long") from error
        except OSError as error:
            if not may_be_unknown:
                raise httpx.ConnectError("name look-up failed") from error

    async def aclose(self) -> None:
        """Drop look-ups in flight."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look_up(self, key: tuple[str, int]) -> list[AddrInfo] | OSError:
        """An unknown name is a result here: as an exception it would be logged as a task's failure."""
        try:
            loop = asyncio.get_running_loop()
            infos = await loop.getaddrinfo(key[0], key[1], type=socket.SOCK_STREAM)
        except OSError as error:
            return error
        except UnicodeError:  # a label that is no name at all
            return OSError(errno.EINVAL, "not a host name")
        finally:
            del self._running[key]
        if len(self._known) >= _DNS_MAX_NAMES:
            self._known.clear()
        found: list[AddrInfo] = [(int(f), int(k), p, c, a) for f, k, p, c, a in infos]
        self._known[key] = (time.monotonic() + _DNS_TTL_S, found)
        return found


def _literal(host: str, port: int) -> AddrInfo | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version == 6:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))
