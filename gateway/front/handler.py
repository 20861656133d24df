"""The slim handler of the relay: Django's request, URL resolver and views without its thread hops.

Django's own ASGI handler spends several thread hops, a temporary file and two signals on a request. This
one runs one async chain, watches for the client's leaving and closes on the loop. It calls the view when
the head is there: a view that wants the body awaits `read_body`, after it has decided that the caller may
send one. The console keeps Django's. Must not import views.

A client's leaving: while the view runs, and while a whole answer is sent, the task is cancelled; a
response that transmits itself is told by `client_left()` instead.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver

from gateway import wiring
from gateway.api.errors import log_unexpected
from gateway.front.client_watch import ClientWatch
from gateway.front.connection import ClientConnection
from gateway.front.middleware import GetResponse, Middleware
from gateway.front.request import ClientRequest
from gateway.front.sending import Receive, Scope, Send, send_refusal, send_whole, with_deadline

LITERAL_ROUTES_KEPT = 256


class TransmittedResponse(Protocol):
    """A response that writes itself. Subclass `HttpResponseBase`, so that headers can be set on it."""

    async def transmit(self, send: Send, connection: ClientConnection) -> None:
        """Write everything, `http.response.start` included; join own tasks before returning."""
        ...

    def client_left(self) -> None:
        """The client has gone. Called at most once, synchronously, before or during `transmit`."""
        ...


class TransmissionFailed(Exception):
    """A response broke while it was written; says nothing, because servers log what they catch."""


class RelayHandler(ASGIHandler):
    """ASGI application for the relay's paths. One a process; holds nothing of a request or a loop."""

    def __init__(self, middleware: Iterable[Middleware], *, urlconf: str, max_body_bytes: int) -> None:
        # Not super().__init__(): it would load settings.MIDDLEWARE, the console's.
        chain: GetResponse = self._respond
        for layer in reversed(tuple(middleware)):
            chain = layer(chain)
        self._chain = chain
        self._urlconf = urlconf
        self._max_body_bytes = max_body_bytes
        self._literal_routes: dict[str, ResolverMatch] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("the relay handler serves http only")
        request = ClientRequest(scope, receive, self._urlconf, self._max_body_bytes)
        watch = request.watch = ClientWatch(request.connection, receive)
        try:
            response = watch.response = await self._chain(request)
            await self._send(request, response, send)
        except RequestAborted:
            pass  # it left while it was still sending: nobody to answer
        except asyncio.CancelledError:
            if not watch.has_left:
                raise
            watch.swallow_cancellation()  # the server would log a cancelled task as a crash
        except Exception as error:  # noqa: BLE001  the last border: nothing may reach the server's log
            log_unexpected(error, request.request_id)
            _break_off(request.connection)
        finally:
            watch.stop()
            _close(request, watch.response)

    async def _respond(self, request: ClientRequest) -> HttpResponseBase:
        """The innermost step: start what must run, find the view, call it. The body is still to come."""
        if not wiring.is_ready() and request.path_info != "/healthz":
            await wiring.start()
        match = self._match(request)
        request.check_query()
        request.watch.start(is_body_read=request.is_body_read)
        response = await _call(match, request)
        if request.method == "HEAD" and response.status_code == 405 and "GET" in response.get("Allow", ""):
            response = await _call_as_get(match, request)
        return response

    def _match(self, request: ClientRequest) -> ResolverMatch:
        """Django's resolver tries patterns in a row; routes without parameters are remembered."""
        path = request.path_info
        match = self._literal_routes.get(path)
        if match is None:
            match = get_resolver(self._urlconf).resolve(path)
            if not match.args and not match.kwargs and len(self._literal_routes) < LITERAL_ROUTES_KEPT:
                self._literal_routes[path] = match
        request.resolver_match = match
        return match

    async def _send(self, request: ClientRequest, response: HttpResponseBase, send: Send) -> None:
        watch, connection = request.watch, request.connection
        transmit = getattr(response, "transmit", None)
        if watch.has_left:  # and the view answered all the same
            watch.swallow_cancellation()
            watch.tell_response()
            if transmit is None:
                return
        if transmit is not None:
            watch.start(is_body_read=True)  # nobody will read it any more
            await transmit(send, connection)
        elif not isinstance(response, HttpResponse):  # Django's own streaming response
            watch.start(is_body_read=True)
            await self.send_response(response, with_deadline(send, connection))
        elif request.is_body_read:
            await send_whole(response, send, connection)
        else:
            await send_refusal(response, send, connection, request.receive)


async def _call(match: ResolverMatch, request: ClientRequest) -> HttpResponseBase:
    response = await _awaitable(match.func)(request, *match.args, **match.kwargs)
    if not isinstance(response, HttpResponseBase):
        raise TypeError(f"the view answered with a {type(response).__name__}")
    return response


async def _call_as_get(match: ResolverMatch, request: ClientRequest) -> HttpResponseBase:
    """A route that knows GET answers HEAD too: the server leaves the body out."""
    request.set_method("GET")
    try:
        return await _call(match, request)
    finally:
        request.set_method("HEAD")


@functools.cache
def _awaitable(view: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The view, or a sync one in a thread. There are as many as routes."""
    if iscoroutinefunction(view):
        return view
    return sync_to_async(_with_fresh_connections(view), thread_sensitive=False)


def _with_fresh_connections(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Django's signals, which would drop dead and aged connections, are not sent here."""

    def in_thread(*args: Any, **kwargs: Any) -> HttpResponseBase:
        close_old_connections()
        try:
            return view(*args, **kwargs)
        finally:
            close_old_connections()

    return in_thread


def _break_off(connection: ClientConnection) -> None:
    """Half an answer must look like one: no clean end of the connection."""
    if not connection.can_abort:
        raise TransmissionFailed from None
    connection.abort()


def _close(request: ClientRequest, response: HttpResponseBase | None) -> None:
    """What `response.close()` does, but for its `request_finished` signal."""
    closers: list[Callable[[], object]] = getattr(response, "_resource_closers", [])
    for close in closers:
        try:
            close()
        except Exception as error:  # noqa: BLE001  the others must be closed too
            log_unexpected(error, request.request_id)
    request.close()
