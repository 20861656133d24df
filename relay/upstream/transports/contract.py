"""What every upstream transport promises: the trace of a dial, the body stream, request options, errors.

A transport is an `httpx.AsyncBaseTransport` that is called directly, without an httpx client. The
implementations live beside this module and pass one contract suite; `build` picks one.

Errors, all httpx's own, raised by `handle_async_request` and by reading the body:

| nothing of the request left us          | the upstream may have worked (and billed)            |
|------------------------------------------|------------------------------------------------------|
| `ConnectError`, `AddressRefused`         | `ReadError`: reset, closed early, body cut short     |
| `ConnectTimeout`                         | `ReadTimeout`: only where a read limit was asked for |
| `WriteError`: closed before the head     | `RemoteProtocolError`: broken HTTP, unknown coding   |
| `LocalProtocolError`: bad header or URL  |                                                      |

Messages name classes, never URLs, addresses or bytes of the exchange.

Must not import: Django, a concrete transport.
"""

import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import httpx
import msgspec

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
KEEPALIVE_IDLE_S = 4.0  # Node closes idle connections after 5 s; shorter means we rarely meet a stale one
MAX_HEADER_LINE_BYTES = 65_536

_FORBIDDEN = bytes([*range(9), *range(11, 32), 127])  # LF is counted instead, tabs may stand in a value

_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

# Keys of `httpx.Request.extensions`.
EXT_TRACE = "relay.trace"  # DialTrace to fill in
EXT_CONNECT_TIMEOUT_S = "relay.connect_timeout_s"  # float, seconds, TLS included
EXT_PROXY = "relay.proxy"  # str: http://[user:password@]host:port
EXT_FRESH_CONNECTION = "relay.fresh_connection"  # bool: dial, never reuse
EXT_HTTP2 = "relay.http2"  # bool: HTTP/2 by ALPN


class DialPhase(StrEnum):
    """How far one request got."""

    DIALING = "dialing"  # no connection yet
    CONNECTED = "connected"  # TLS included; not a byte of the request was written
    SENT = "sent"  # the first byte was handed to the socket: a failure from here on is ambiguous


@dataclass(slots=True)
class DialTrace:
    """Filled in by the transport while it works on one request. Times are `time.monotonic()` seconds.

    connected_at: a connection was there (dialled or from the pool). sent_at: the whole request, body
    included, was handed over; None while an upload is still running, so header timers start here.
    reused: the connection came from the pool.
    """

    phase: DialPhase = DialPhase.DIALING
    reused: bool = False
    connected_at: float | None = None
    sent_at: float | None = None

    def mark_connected(self, *, reused: bool) -> None:
        self.phase = DialPhase.CONNECTED
        self.reused = reused
        self.connected_at = time.monotonic()
        self.sent_at = None

    def mark_sending(self) -> None:
        self.phase = DialPhase.SENT

    def mark_sent(self) -> None:
        self.phase = DialPhase.SENT
        self.sent_at = time.monotonic()

    def mark_unsent(self) -> None:
        """The write was refused as a whole: back to CONNECTED."""
        self.phase = DialPhase.CONNECTED
        self.sent_at = None


class AddressRefused(httpx.ConnectError):
    """The upstream's name or address leads to a private network nobody allowed. Nothing was sent."""


class BodyStream(httpx.AsyncByteStream):
    """A response body. Read it with `read_some` or as an async iterator, not both; always `aclose`.

    sink: offered the bytes that arrive while `read_some` waits, in the step in which they arrive; True =
    taken, and `read_some` goes on waiting. It spares a reader its turn for each event of a stream. A
    transport need not honour it. Must not raise.
    """

    sink: Callable[[bytes], bool] | None = None

    @property
    def has_come_whole(self) -> bool:
        """No `read_some` will wait any more. A transport need not know."""
        return False

    async def read_some(self) -> bytes:
        """Everything that has arrived; waits for the first byte; b"" at the end of the body.

        Bytes that came before a failure are returned before it is raised.
        Errors: ReadError, RemoteProtocolError.
        """
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read_some():
            yield data

    async def aclose(self) -> None:
        """Back to the pool if the body was complete, else the connection is cut at once. Idempotent.

        Takes `CLOSE_TIMEOUT_S` at the most, and on HTTP/1.1 no time at all.
        """
        raise NotImplementedError


class Target(msgspec.Struct, frozen=True):
    """Where a request goes: its URL, and what a transport asks of it. origin: scheme, host in ASCII, port."""

    url: httpx.URL
    origin: tuple[str, str, int]
    raw_path: bytes

    @classmethod
    def of(cls, url: httpx.URL) -> "Target":
        return cls(url, (url.scheme, url.raw_host.decode("ascii"), port_of(url)), url.raw_path)


class UpstreamRequest(httpx.Request):
    """A request with a body of bytes, given whole: httpx's own constructor would take it apart and copy it.

    raw_headers: names in lower case.
    """

    def __init__(
        self, method: str, target: Target, raw_headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        # Not super().__init__(): see above.
        self.method = method
        self.target = target
        self.url = target.url
        self.raw_headers = raw_headers
        self.extensions = {}
        self.stream = httpx.ByteStream(body)
        self._content = body

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]  # lazy here
        return httpx.Headers(self.raw_headers)


class UpstreamResponse(httpx.Response):
    """A response as a transport read it, whose headers httpx takes apart only for those who ask for them."""

    def __init__(
        self,
        status: int,
        raw_headers: list[tuple[bytes, bytes]],
        stream: BodyStream,
        request: httpx.Request,
    ) -> None:
        # Not super().__init__(): see above.
        self.status_code = status
        self.raw_headers = raw_headers
        self.stream = stream
        self._request = request
        self.extensions, self.history, self.next_request = {}, [], None
        self.is_closed = self.is_stream_consumed = False

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]  # lazy here
        return httpx.Headers(self.raw_headers)


class RelayTransport(Protocol):
    """The shape all implementations share, for type hints of those who are handed one."""

    async def start(self) -> None: ...
    async def handle_async_request(self, request: httpx.Request) -> UpstreamResponse: ...
    async def aclose(self) -> None: ...


class RequestOptions(msgspec.Struct, frozen=True, gc=False):
    """The `relay.*` extensions of one request, with defaults applied."""

    trace: DialTrace
    connect_timeout_s: float
    proxy: str | None
    is_fresh: bool
    is_http2: bool

    @classmethod
    def of(cls, extensions: MutableMapping[str, Any], connect_timeout_s: float) -> "RequestOptions":
        get = extensions.get
        return cls(
            trace=get(EXT_TRACE) or DialTrace(),
            connect_timeout_s=get(EXT_CONNECT_TIMEOUT_S) or connect_timeout_s,
            proxy=get(EXT_PROXY) or None,
            is_fresh=bool(get(EXT_FRESH_CONNECTION)),
            is_http2=bool(get(EXT_HTTP2)),
        )


def port_of(url: httpx.URL) -> int:
    """The TCP port of `url`."""
    return url.port or (443 if url.scheme == "https" else 80)


def request_headers(request: httpx.Request) -> list[tuple[bytes, bytes]]:
    """The headers to send, see `framed_headers`. Errors: see `header_lines`."""
    headers = framed_headers(request)
    header_lines(headers)
    return headers


def header_lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    """`name: value` lines, joined by LF.

    Errors: LocalProtocolError for names or values that could break out of their line.
    """
    lines = b"\n".join([b"%b: %b" % pair for pair in headers])
    if len(lines.translate(None, _FORBIDDEN)) != len(lines) or lines.count(b"\n") != len(headers) - 1:
        raise httpx.LocalProtocolError("control character in a request header")
    return lines


def framed_headers(request: httpx.Request) -> list[tuple[bytes, bytes]]:
    """The request's headers with framing of ours: derived from the body, whatever the request says.

    Bodies of bytes get a Content-Length; streams keep theirs or are chunked. Without an Accept-Encoding of
    the request's own the upstream is asked not to compress.
    """
    headers: list[tuple[bytes, bytes]] = []
    length = b""
    asks_for_coding = False
    for pair in request.raw_headers if isinstance(request, UpstreamRequest) else request.headers.raw:
        name = pair[0].lower()
        if name == b"content-length":
            length = pair[1]
        elif name != b"transfer-encoding":
            headers.append(pair)
            asks_for_coding = asks_for_coding or name == b"accept-encoding"
    if isinstance(request.stream, httpx.ByteStream):
        size = len(request.content)
        if size or request.method in _METHODS_WITH_BODY:
            headers.append((b"Content-Length", b"%d" % size))
    else:
        headers.append((b"Content-Length", length) if length else (b"Transfer-Encoding", b"chunked"))
    if not asks_for_coding:
        headers.append((b"Accept-Encoding", b"identity"))
    return headers


def has_no_body(method: str, status: int) -> bool:
    """Whether the response carries no body whatever its headers say (RFC 9112 section 6.3)."""
    return method == "HEAD" or status in (204, 304)
