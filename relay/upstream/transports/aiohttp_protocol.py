"""Repairs to aiohttp's client protocol, and the error mapping that goes with it.

- A chunk that is malformed after the headers closes the connection but leaves the body's reader waiting for
  ever: fail the body as well.
- A body that lasts until the connection closes looks complete when the connection was reset: fail it.
- An answer that arrives on an idle connection is handed to the next request: close the connection instead.

All of it is private territory of a pinned aiohttp; the contract tests stand guard.

Must not import: Django, anything else of relay.upstream but the shared vocabulary.
"""

import functools
from typing import Any, NoReturn, cast

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import ContentLengthError, TransferEncodingError

from relay.upstream.transports.address_guard import AddressBlockedError
from relay.upstream.transports.contract import AddressRefused, DialPhase, DialTrace


class RepairedHandler(ResponseHandler):
    """One connection of aiohttp's: its body fails when the connection fails, and idle means silent."""

    is_idle = False  # in the pool: whatever arrives now answers nobody

    def data_received(self, data: bytes) -> None:
        if self.is_idle and data:
            self.force_close()
            if self.transport is not None:
                self.transport.abort()
            return
        super().data_received(data)

    def set_response_params(self, **params: Any) -> None:
        self.is_idle = False
        super().set_response_params(**params)

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is not None:
            self._fail_body(aiohttp.ClientOSError(*exc.args))
        super().connection_lost(exc)

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        super().set_exception(exc, *cause)
        self._fail_body(exc)

    def _fail_body(self, exc: BaseException) -> None:
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc)


class RepairedConnector(aiohttp.TCPConnector):
    """Builds RepairedHandlers and tells them when they are idle."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = functools.partial(cast("type[ResponseHandler]", RepairedHandler), loop=self._loop)

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        if isinstance(protocol, RepairedHandler):
            protocol.is_idle = True


def raise_mapped(error: Exception, trace: DialTrace) -> NoReturn:
    """Turn whatever aiohttp raised before the headers came into the httpx error of the phase."""
    if isinstance(error, httpx.HTTPError):
        raise error
    if trace.phase is DialPhase.DIALING:
        raise _connect_error(error) from error
    if trace.phase is DialPhase.CONNECTED or _is_unsent_head(error):
        trace.mark_unsent()
        raise httpx.WriteError("connection closed before the request was sent") from error
    raise read_error(error) from error


def read_error(error: Exception) -> httpx.TransportError:
    """The httpx error for a failure after the request was (or may have been) sent."""
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout("upstream went silent")
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return httpx.ReadError(f"connection broke: {type(error).__name__}")
    if isinstance(error, aiohttp.ClientPayloadError) and _is_cut(error):
        return httpx.ReadError("connection closed before the body was complete")
    if isinstance(error, RuntimeError):  # aiohttp's word for reading a connection that was closed by us
        return httpx.ReadError("connection was closed")
    return httpx.RemoteProtocolError(f"upstream broke HTTP: {type(error).__name__}")


def _connect_error(error: Exception) -> httpx.TransportError:
    if isinstance(error, TimeoutError):
        return httpx.ConnectTimeout("connecting took too long")
    if isinstance(getattr(error, "os_error", None), AddressBlockedError):
        return AddressRefused("upstream address is not allowed")
    return httpx.ConnectError(f"could not connect: {type(error).__name__}")


def _is_unsent_head(error: Exception) -> bool:
    """A head without body that met a closing transport: aiohttp says so before it writes."""
    return type(error) is aiohttp.ClientConnectionResetError


def _is_cut(error: aiohttp.ClientPayloadError) -> bool:
    """Whether the body stopped early, rather than being malformed."""
    cause = error.__cause__
    return isinstance(cause, ContentLengthError | TransferEncodingError) and "Not enough data" in str(cause)
