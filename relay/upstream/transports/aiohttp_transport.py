"""The reference transport: an aiohttp session behind httpx's types, with exact errors and phases.

aiohttp brings TLS, proxies, pooling and a hardened parser. What it lacks, and what is added here: telling
"nothing was sent" from "may have been billed", bytes that came before a failure, a cut that does not wait
for unsent bytes, and the address guard on every dial.

Must not import: Django, another transport than the HTTP/2 one it delegates to.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict
from yarl import URL

from relay.upstream.transports.address_guard import AddressGuard
from relay.upstream.transports.aiohttp_protocol import RepairedConnector, raise_mapped, read_error
from relay.upstream.transports.content_coding import build_response
from relay.upstream.transports.contract import (
    CONNECT_TIMEOUT_S,
    KEEPALIVE_IDLE_S,
    MAX_HEADER_LINE_BYTES,
    BodyStream,
    DialTrace,
    RequestOptions,
    UpstreamResponse,
    request_headers,
)
from relay.upstream.transports.http2_transport import Http2Transport

_SKIP_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AiohttpTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over aiohttp; HTTP/2 requests go to httpx's own transport. One per event loop.

    allowed_private_nets: networks that may be dialled besides the public internet. connect_timeout_s: DNS,
    TCP and TLS together. ssl_context: for private CAs; the system's trust store otherwise.
    """

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
        self._idle_s = idle_s
        self._ssl_context = ssl_context
        self._http2 = Http2Transport(self._guard, ssl_context=ssl_context)
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Make the session now rather than on the first request. Needs the running loop."""
        self._session(is_fresh=False)

    async def handle_async_request(self, request: httpx.Request) -> UpstreamResponse:
        """Send `request`, return once the response's headers are there. See `contract`."""
        if self._is_closed:
            raise httpx.ConnectError("transport is closed")
        options = RequestOptions.of(request.extensions, self._connect_timeout_s)
        headers = request_headers(request)
        if options.is_http2:
            return await self._http2.send(request, headers, options)
        if options.proxy is not None:  # the proxy dials: the target can be checked, not pinned
            await self._guard.check_url(request.url, timeout_s=options.connect_timeout_s, may_be_unknown=True)
        payload = _payload_of(request, options.trace)
        try:
            response = await self._send(request, headers, options, payload)
        except BaseException as error:
            if payload is not None:
                payload.abort()
            if isinstance(error, Exception):
                raise_mapped(error, options.trace)
            raise
        return _to_httpx(request, response, payload)

    async def aclose(self) -> None:
        """Close every connection, running ones included."""
        self._is_closed = True
        await self._http2.aclose()
        await self._guard.aclose()
        for session in (self._pooled, self._fresh):
            if session is not None and session.connector is not None:
                await session.connector.close(abort_ssl=True)
                await session.close()
        self._pooled = self._fresh = None
        await asyncio.sleep(0)  # connection_lost of the last sockets

    async def _send(
        self,
        request: httpx.Request,
        headers: list[tuple[bytes, bytes]],
        options: RequestOptions,
        payload: "_TracedPayload | None",
    ) -> aiohttp.ClientResponse:
        limit_s = options.connect_timeout_s
        return await self._session(is_fresh=options.is_fresh).request(
            request.method,
            URL(str(request.url), encoded=True),
            data=payload,
            headers=_aiohttp_headers(headers),
            allow_redirects=False,
            proxy=options.proxy,
            # `connect` covers DNS as well; `sock_connect` alone would hang on a dead resolver.
            timeout=aiohttp.ClientTimeout(total=None, connect=limit_s, sock_connect=limit_s),
            trace_request_ctx=(options.trace, payload is None),
        )

    def _session(self, *, is_fresh: bool) -> aiohttp.ClientSession:
        session = self._fresh if is_fresh else self._pooled
        if session is None:
            session = self._build_session(force_close=is_fresh)
            if is_fresh:
                self._fresh = session
            else:
                self._pooled = session
        return session

    def _build_session(self, *, force_close: bool) -> aiohttp.ClientSession:
        pool: dict[str, Any] = {"force_close": True} if force_close else {"keepalive_timeout": self._idle_s}
        connector = RepairedConnector(
            limit=0,
            socket_factory=self._guard.socket_for,
            ssl=self._ssl_context if self._ssl_context is not None else True,
            **pool,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[_trace_config()],
            max_line_size=MAX_HEADER_LINE_BYTES,
            max_field_size=MAX_HEADER_LINE_BYTES,
            skip_auto_headers=_SKIP_AUTO_HEADERS,
        )
        # aiohttp repeats GET, PUT and DELETE by itself when a connection breaks; that is the engine's job.
        session._retry_connection = False  # noqa: SLF001 - no public switch; the contract tests watch it
        return session


class _AiohttpBody(BodyStream):
    """A response body on aiohttp's stream reader."""

    __slots__ = ("_content", "_error", "_payload", "_response")

    def __init__(self, response: aiohttp.ClientResponse, payload: "_TracedPayload | None") -> None:
        self._response = response
        self._payload = payload
        self._content = response.content
        self._error: Exception | None = None

    async def read_some(self) -> bytes:
        if self._error is not None:
            raise self._error
        try:
            return await self._content.readany()
        except Exception as error:  # noqa: BLE001 - mapped below, whatever aiohttp raises
            self._error = read_error(error)
            self._error.__cause__ = error
        # aiohttp forgets bytes that arrived before the failure; they belong to the reader.
        rest = self._content._read_nowait(-1)  # noqa: SLF001 - the public read_nowait refuses after an error
        if rest:
            return rest
        raise self._error

    async def aclose(self) -> None:
        response = self._response
        if self._payload is not None and not self._payload.is_sent:
            self._payload.abort()  # answered before it took the whole request
        connection = response.connection
        if connection is not None and connection.transport is not None and not self._content.is_eof():
            connection.transport.abort()  # close() would wait for unsent bytes and for TLS's goodbye
        response.close()


class _TracedPayload(Payload):
    """The request body, marking in the trace what was handed to the socket, and able to cut it."""

    def __init__(self, value: bytes | AsyncIterable[bytes], trace: DialTrace) -> None:
        super().__init__(value)
        self._trace = trace
        self._size = len(value) if isinstance(value, bytes) else None
        self._transport: asyncio.Transport | None = None
        self.is_sent = False

    def abort(self) -> None:
        """Cut the connection this body was written to: aiohttp's own close would send the rest first."""
        if self._transport is not None:
            self._transport.abort()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002 - aiohttp's name
        raise TypeError("a relayed body is never decoded")

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(
        self,
        writer: AbstractStreamWriter,
        content_length: int | None,  # noqa: ARG002 - httpx counted it from this very body
    ) -> None:
        stream_writer = cast("StreamWriter", writer)
        self._transport = stream_writer.transport
        trace = self._trace
        if isinstance(self._value, bytes):
            # Head and body leave in one write, which raises before anything is sent or not at all.
            await stream_writer.write(self._value, drain=False)
            trace.mark_sending()
            await writer.drain()
        else:
            async for chunk in self._value:
                await writer.write(chunk)
                trace.mark_sending()
        trace.mark_sent()
        self.is_sent = True


def _payload_of(request: httpx.Request, trace: DialTrace) -> _TracedPayload | None:
    stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        body = request.content
        return _TracedPayload(body, trace) if body else None
    if isinstance(stream, httpx.AsyncByteStream):
        return _TracedPayload(stream, trace)
    raise TypeError("the request's body must be bytes or an async stream")


def _to_httpx(
    request: httpx.Request, response: aiohttp.ClientResponse, payload: _TracedPayload | None
) -> UpstreamResponse:
    stream = _AiohttpBody(response, payload)
    try:
        return build_response(request, response.status, list(response.raw_headers), stream)
    except httpx.RemoteProtocolError:
        response.close()
        raise


def _trace_config() -> aiohttp.TraceConfig:
    """Hooks that fill the DialTrace; the request's context is (trace, whether there is no body)."""

    async def connected(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx[0].mark_connected(reused=False)

    async def reused(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx[0].mark_connected(reused=True)

    async def sending(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        trace, is_bodyless = context.trace_request_ctx
        if is_bodyless:  # the head is written right behind this call; with a body the payload marks it
            trace.mark_sent()

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(connected)
    config.on_connection_reuseconn.append(reused)
    config.on_request_headers_sent.append(sending)
    return config


def _aiohttp_headers(headers: list[tuple[bytes, bytes]]) -> "CIMultiDict[str]":
    """Without Transfer-Encoding, which aiohttp insists on setting itself."""
    pairs = [(_text(name), _text(value)) for name, value in headers if name.lower() != b"transfer-encoding"]
    return CIMultiDict(pairs)


def _text(raw: bytes) -> str:
    """As aiohttp writes headers, as UTF-8; bytes that are none are taken as Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
