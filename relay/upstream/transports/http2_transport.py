"""HTTP/2 requests, through httpx's own transport, one instance for each proxy.

Its errors are httpx's already, only sharpened by the phase. The limit: httpx resolves the name again when
it dials, so the guard's check does not pin the address. A channel whose name is not trusted stays on 1.1.

Must not import: Django, a concrete HTTP/1.1 transport.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import httpcore
import httpx
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from relay.upstream.transports.address_guard import AddressGuard
from relay.upstream.transports.content_coding import build_response
from relay.upstream.transports.contract import (
    CLOSE_TIMEOUT_S,
    KEEPALIVE_IDLE_S,
    BodyStream,
    DialPhase,
    DialTrace,
    RequestOptions,
    UpstreamResponse,
)

_UNLIMITED = httpx.Limits(
    max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_IDLE_S
)


class Http2Transport:
    """Sends single requests with HTTP/2 where the server offers it by ALPN, else with HTTP/1.1."""

    def __init__(self, guard: AddressGuard, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._ssl_context = ssl_context
        self._shared: dict[str | None, httpx.AsyncHTTPTransport] = {}

    async def send(
        self, request: httpx.Request, headers: list[tuple[bytes, bytes]], options: RequestOptions
    ) -> UpstreamResponse:
        """Send `request` with `headers` in place of its own. Errors: see `contract`."""
        await self._guard.check_url(
            request.url, timeout_s=options.connect_timeout_s, may_be_unknown=options.proxy is not None
        )
        transport = self._transport(options)
        try:
            response = await transport.handle_async_request(_outgoing(request, headers, options, transport))
            return await _wrap(request, response, transport.aclose if options.is_fresh else None)
        except BaseException as error:
            if options.is_fresh:
                await transport.aclose()
            if isinstance(error, httpx.TransportError):
                raise _sharpened(error, options.trace) from error
            raise

    async def aclose(self) -> None:
        """Close every shared connection."""
        transports, self._shared = list(self._shared.values()), {}
        for transport in transports:
            await transport.aclose()

    def _transport(self, options: RequestOptions) -> httpx.AsyncHTTPTransport:
        if options.is_fresh:
            return self._build(options.proxy)
        transport = self._shared.get(options.proxy)
        if transport is None:
            transport = self._shared[options.proxy] = self._build(options.proxy)
        return transport

    def _build(self, proxy: str | None) -> httpx.AsyncHTTPTransport:
        return httpx.AsyncHTTPTransport(
            http2=True,
            verify=self._ssl_context if self._ssl_context is not None else True,
            trust_env=False,
            limits=_UNLIMITED,
            proxy=proxy,
        )


class _Http2Body(BodyStream):
    """httpx's response stream with a direct read. `on_close` ends a connection made for it alone."""

    __slots__ = ("_chunks", "_on_close", "_stream")

    def __init__(self, stream: httpx.AsyncByteStream, on_close: Callable[[], Awaitable[None]] | None) -> None:
        self._stream = stream
        self._chunks = cast("AsyncGenerator[bytes, None]", stream.__aiter__())
        self._on_close = on_close

    async def read_some(self) -> bytes:
        try:
            return await anext(self._chunks, b"")
        except httpx.WriteError as error:  # a window update that failed is a broken connection as well
            raise httpx.ReadError("connection broke") from error

    async def aclose(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._end()

    async def _end(self) -> None:
        with suppress(RuntimeError):  # a read is running: closing the stream ends it
            await self._chunks.aclose()
        await self._stream.aclose()
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            await on_close()


class _Tracer:
    """httpcore's trace callback: our phases, and the RST_STREAM that httpcore forgets.

    httpcore only forgets a stream that is given up; the upstream would go on generating, and its data would
    eat the connection's window. The places used for it are private; the contract tests stand guard.
    """

    __slots__ = ("_is_dialled", "_pool", "_trace")

    def __init__(self, trace: DialTrace, pool: object) -> None:
        self._trace = trace
        self._pool = pool
        self._is_dialled = False

    async def __call__(self, name: str, info: dict[str, Any]) -> None:
        event = name.partition(".")[2]
        if event == "connect_tcp.complete":
            self._is_dialled = True
        elif event == "send_request_headers.started":
            self._trace.mark_connected(reused=not self._is_dialled)
            self._trace.mark_sending()
            self._pool = _h2_connection(self._pool, info["request"])
        elif event == "send_request_body.complete":
            self._trace.mark_sent()
        elif event == "response_closed.started" and "stream_id" in info:
            await _reset_stream(self._pool, info["stream_id"])


def _h2_connection(pool: object, request: object) -> object:
    """The HTTP/2 connection that carries httpcore's `request`; None for HTTP/1.1."""
    for pending in getattr(pool, "_requests", ()):
        if pending.request is request:
            connection = pending.connection
            while connection is not None and not hasattr(connection, "_h2_state"):
                connection = getattr(connection, "_connection", None)
            return connection
    return None


async def _reset_stream(connection: Any, stream_id: int) -> None:
    """Tell the upstream that a stream is given up; nothing for a stream that has ended."""
    if connection is None:
        return
    try:
        connection._h2_state.reset_stream(stream_id, error_code=ErrorCodes.CANCEL)  # noqa: SLF001 - see _Tracer
    except ProtocolError:
        return
    with suppress(Exception):  # the connection is broken: that ends the stream as well
        await connection._write_outgoing_data(httpcore.Request("POST", "http://reset"))  # noqa: SLF001 - ditto


def _outgoing(
    request: httpx.Request,
    headers: list[tuple[bytes, bytes]],
    options: RequestOptions,
    transport: httpx.AsyncHTTPTransport,
) -> httpx.Request:
    limit_s = options.connect_timeout_s
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        stream=request.stream,
        extensions={
            "timeout": {"connect": limit_s, "pool": limit_s, "read": None, "write": None},
            "trace": _Tracer(options.trace, getattr(transport, "_pool", None)),
        },
    )


async def _wrap(
    request: httpx.Request, response: httpx.Response, on_close: Callable[[], Awaitable[None]] | None
) -> UpstreamResponse:
    stream = _Http2Body(cast("httpx.AsyncByteStream", response.stream), on_close)
    try:
        return build_response(request, response.status_code, response.headers.raw, stream)
    except httpx.RemoteProtocolError:
        await stream.aclose()
        raise


def _sharpened(error: httpx.TransportError, trace: DialTrace) -> httpx.TransportError:
    """Keep "never sent" and "may have been billed" apart by the phase, whatever httpx called it."""
    if trace.phase is DialPhase.DIALING:
        if isinstance(error, httpx.TimeoutException):
            return httpx.ConnectTimeout("connecting took too long")
        if not isinstance(error, httpx.ConnectError):
            return httpx.ConnectError(f"could not connect: {type(error).__name__}")
    elif isinstance(error, httpx.WriteError | httpx.CloseError | httpx.LocalProtocolError):
        return httpx.ReadError(f"connection broke: {type(error).__name__}")
    return error
