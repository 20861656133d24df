"""The fast transport: httptools' parser on asyncio protocols with a pool of its own.

HTTP/1.1 to the upstream itself only; proxies and HTTP/2 go to the aiohttp transport, whose contract this one
shares. A request is one write and one future; a read that has to wait is one future more.

Must not import: Django.
"""

import asyncio
import functools
import ssl
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import cast

import httpx
from aiohappyeyeballs import start_connection

from relay.upstream.aio_tasks import spawn
from relay.upstream.transports.address_guard import AddressBlockedError, AddressGuard, AddrInfo
from relay.upstream.transports.aiohttp_transport import AiohttpTransport
from relay.upstream.transports.content_coding import build_response
from relay.upstream.transports.contract import (
    CONNECT_TIMEOUT_S,
    KEEPALIVE_IDLE_S,
    AddressRefused,
    RequestOptions,
    Target,
    UpstreamRequest,
    UpstreamResponse,
    framed_headers,
    header_lines,
)
from relay.upstream.transports.httptools_connection import Connection
from relay.upstream.transports.httptools_exchange import Exchange
from relay.upstream.transports.httptools_pool import ConnectionPool, PoolKey

_NEXT_ADDRESS_S = 0.25  # an address that takes longer is joined by the next one (RFC 8305)
_JOIN_BYTES = 65_536  # bodies up to this size are copied behind their head and leave in one segment


class HttptoolsTransport(httpx.AsyncBaseTransport):
    """See `relay.upstream.transports.contract` for the contract, AiohttpTransport for the arguments."""

    def __init__(
        self,
        allowed_private_nets: Sequence[IPv4Network | IPv6Network],
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        idle_s: float = KEEPALIVE_IDLE_S,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = AddressGuard(allowed_private_nets)
        self._connect_timeout_s = connect_timeout_s
        self._ssl_context = ssl_context
        self._pool = ConnectionPool(idle_s)
        self._other = AiohttpTransport(
            allowed_private_nets, connect_timeout_s=connect_timeout_s, idle_s=idle_s, ssl_context=ssl_context
        )
        self._is_closed = False

    async def start(self) -> None:
        """Load the trust store now rather than on the first request (20 ms)."""
        self._context()

    async def handle_async_request(self, request: httpx.Request) -> UpstreamResponse:
        """Send `request`, return once the response's headers are there."""
        options = RequestOptions.of(request.extensions, self._connect_timeout_s)
        if options.proxy is not None or options.is_http2:
            return await self._other.handle_async_request(request)
        if self._is_closed:
            raise httpx.ConnectError("transport is closed")
        target = request.target if isinstance(request, UpstreamRequest) else Target.of(request.url)
        head = _head(request, target)
        key = target.origin
        connection = None if options.is_fresh else self._pool.take(key)
        if connection is not None:
            options.trace.mark_connected(reused=True)
        else:
            connection = await self._dial(key, options)
            options.trace.mark_connected(reused=False)
        return await _exchange(request, head, connection, options)

    async def aclose(self) -> None:
        """Close every connection, running ones included."""
        self._is_closed = True
        await self._guard.aclose()
        await self._pool.aclose()
        await self._other.aclose()

    async def _dial(self, key: PoolKey, options: RequestOptions) -> Connection:
        """A new connection to the first address that answers. Errors: as for every dial."""
        try:
            async with asyncio.timeout(options.connect_timeout_s):
                infos = await self._guard.resolve(key[1], key[2])
                return await self._connect(key, infos)
        except TimeoutError as late:
            raise httpx.ConnectTimeout("connecting took too long") from late
        except AddressBlockedError as refused:
            raise AddressRefused("upstream address is not allowed") from refused
        except (OSError, RuntimeError) as failed:  # of the look-up too; uvloop has RuntimeError for some
            raise httpx.ConnectError(f"could not connect: {type(failed).__name__}") from failed

    async def _connect(self, key: PoolKey, infos: list[AddrInfo]) -> Connection:
        loop = asyncio.get_running_loop()
        sock = await start_connection(
            infos, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=loop, socket_factory=self._guard.socket_for
        )
        try:
            is_tls = key[0] == "https"
            _, connection = await loop.create_connection(
                lambda: self._pool.protocol(key),
                sock=sock,
                ssl=self._context() if is_tls else None,
                server_hostname=key[1].rstrip(".") if is_tls else None,
            )
        except BaseException:
            sock.close()
            raise
        if self._is_closed:
            connection.drop()
            raise ConnectionAbortedError
        self._pool.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = _default_context()
        return self._ssl_context


@functools.cache
def _default_context() -> ssl.SSLContext:
    """The system's trust store; immutable use, so one for the process."""
    return ssl.create_default_context()


async def _exchange(
    request: httpx.Request, head: bytes, connection: Connection, options: RequestOptions
) -> UpstreamResponse:
    """Write the request, wait for the response's head. Any failure or cancellation cuts the connection."""
    exchange = Exchange(request.method, options.trace, connection.loop)
    connection.begin(exchange)
    try:
        connection.check_open()
        if isinstance(request.stream, httpx.ByteStream):
            _write(connection, exchange, head, request.content)
        else:
            exchange.upload = spawn(_upload(connection, exchange, head, request), name="upload")
        await exchange.head
        return build_response(request, exchange.status, exchange.headers, exchange)
    except BaseException:
        # Not `connection.drop()`: the answer may be complete already, and the connection another request's.
        await exchange.aclose()
        raise


def _write(connection: Connection, exchange: Exchange, head: bytes, body: bytes) -> None:
    if len(body) <= _JOIN_BYTES:
        connection.write(head + body, exchange, is_last=True)
    else:
        connection.write(head, exchange, is_last=False)
        connection.write(body, exchange, is_last=True)


async def _upload(connection: Connection, exchange: Exchange, head: bytes, request: httpx.Request) -> None:
    """A body of unknown origin, piece by piece, as fast as the upstream takes it."""
    is_chunked = b"Transfer-Encoding: chunked" in head
    try:
        connection.write(head, exchange, is_last=False)
        async for piece in cast("httpx.AsyncByteStream", request.stream):
            if not piece:
                continue
            data = b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece
            connection.write(data, exchange, is_last=False)
            await connection.drain()
        connection.write(b"0\r\n\r\n" if is_chunked else b"", exchange, is_last=True)
    except Exception as error:  # noqa: BLE001 - whatever the body's source raised, the request is torn
        exchange.fail(httpx.ReadError(f"request body failed: {type(error).__name__}"))
        connection.drop()


def _head(request: httpx.Request, target: Target) -> bytes:
    lines = header_lines(framed_headers(request)).replace(b"\n", b"\r\n")
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (request.method.encode("ascii"), target.raw_path, lines)
