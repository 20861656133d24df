"""Incremental decoding of bodies that an upstream compressed although it was asked not to.

gzip and deflate come with the standard library; anything else is a protocol error. Output is handed on
in bounded steps, so a small body that unpacks to gigabytes meets the reader's own limits first.

Must not import: Django, a concrete transport.
"""

import zlib

import httpx

from relay.upstream.transports.contract import BodyStream, UpstreamResponse, has_no_body

MAX_STEP_BYTES = 262_144

_GZIP_WBITS = 31
_ZLIB_WBITS = 15
_RAW_WBITS = -15
_IDENTITY = frozenset({b"", b"identity"})
_GZIP = frozenset({b"gzip", b"x-gzip"})
_DEFLATE = frozenset({b"deflate"})
_DROPPED = frozenset({b"content-encoding", b"content-length"})

RawHeaders = list[tuple[bytes, bytes]]


def content_coding(headers: RawHeaders) -> bytes:
    """The body's coding: b"" for none, else b"gzip" or b"deflate".

    Errors: RemoteProtocolError for any other coding or a chain of several.
    """
    values = [value for name, value in headers if len(name) == 16 and name.lower() == b"content-encoding"]
    if not values:
        return b""
    codings = [part.strip().lower() for part in b",".join(values).split(b",")]
    codings = [coding for coding in codings if coding not in _IDENTITY]
    if not codings:
        return b""
    if len(codings) == 1 and codings[0] in _GZIP:
        return b"gzip"
    if len(codings) == 1 and codings[0] in _DEFLATE:
        return b"deflate"
    raise httpx.RemoteProtocolError("upstream used a content coding we did not ask for")


def without_coding(headers: RawHeaders) -> RawHeaders:
    """The headers without those that describe the compressed form."""
    return [pair for pair in headers if pair[0].lower() not in _DROPPED]


def build_response(
    request: httpx.Request, status: int, headers: RawHeaders, stream: BodyStream
) -> UpstreamResponse:
    """The httpx response over `stream`, decoded where need be. The caller closes `stream` if this raises.

    Errors: RemoteProtocolError for a coding we cannot undo.
    """
    if not has_no_body(request.method, status) and (coding := content_coding(headers)):
        headers, stream = without_coding(headers), DecodedStream(stream, coding)
    return UpstreamResponse(status, headers, stream, request)


class DecodedStream(BodyStream):
    """`inner`, decompressed step by step. Each step gives at most MAX_STEP_BYTES."""

    __slots__ = ("_decoder", "_inner")

    def __init__(self, inner: BodyStream, coding: bytes) -> None:
        self._inner = inner
        self._decoder = _Decoder(is_gzip=coding == b"gzip")

    async def read_some(self) -> bytes:
        decoder = self._decoder
        try:
            while True:
                # Until the decoder is drained nothing is read, so the upstream is held back as well.
                if data := decoder.step():
                    return data
                raw = await self._inner.read_some()
                if not raw:
                    decoder.finish()
                    return b""
                decoder.feed(raw)
        except zlib.error as error:
            raise httpx.RemoteProtocolError("upstream's compressed body is broken") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Decoder:
    """zlib with a bound on each step's output; several gzip members follow each other."""

    __slots__ = ("_is_gzip", "_pending", "_stream")

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._pending = b""
        self._stream: zlib._Decompress | None = None  # made when the first two bytes are there

    def feed(self, data: bytes) -> None:
        self._pending += data

    def step(self) -> bytes:
        while (stream := self._current()) is not None:
            # zlib may hold output back although all input is consumed: asking again with b"" is harmless.
            out = stream.decompress(self._pending, MAX_STEP_BYTES)
            self._pending = stream.unused_data if stream.eof else stream.unconsumed_tail
            if out or not stream.eof:
                return out
        return b""

    def finish(self) -> None:
        """The compressed body ended: it must have ended properly."""
        if self._stream is None and not self._pending:
            return  # an empty body
        if self._stream is None or not self._stream.eof:
            raise httpx.RemoteProtocolError("upstream's compressed body was cut short")

    def _current(self) -> "zlib._Decompress | None":
        stream = self._stream
        if stream is not None and not stream.eof:
            return stream
        if stream is not None and not self._is_gzip:
            self._pending = b""  # bytes behind a finished deflate body mean nothing
        if len(self._pending) < 2:
            return None
        self._stream = zlib.decompressobj(self._wbits())
        return self._stream

    def _wbits(self) -> int:
        if self._is_gzip:
            return _GZIP_WBITS
        # "deflate" means zlib (RFC 9110 8.4.1.2), but many servers send it bare.
        first, second = self._pending[0], self._pending[1]
        return _ZLIB_WBITS if first & 0x0F == 8 and (first * 256 + second) % 31 == 0 else _RAW_WBITS
