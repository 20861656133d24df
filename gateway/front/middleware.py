"""The relay's own middleware, async only, and one layer: each layer costs every request.

It gives each request its id, answers CORS preflights, turns exceptions into answers and puts id and
CORS headers on whatever goes back. The console keeps Django's list in the settings.
"""

import re
from collections.abc import Awaitable, Callable

import uuid_utils
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.http import HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase

from gateway.api import errors
from gateway.front.drain import drain
from gateway.front.request import ClientRequest

GetResponse = Callable[[ClientRequest], Awaitable[HttpResponseBase]]
Middleware = Callable[[GetResponse], GetResponse]

PREFLIGHT_MAX_AGE_S = 600
CLIENT_REQUEST_ID_LENGTH = 128

_UNCLEAN = re.compile(r"[^A-Za-z0-9._:/+=@-]")


def new_request_id() -> str:
    """UUIDv7: sorts by time, so it is a good primary key later."""
    return str(uuid_utils.uuid7())


def edge(get_response: GetResponse) -> GetResponse:
    """The one layer between the handler and the views."""

    async def middleware(request: ClientRequest) -> HttpResponseBase:
        request.request_id = new_request_id()
        request.client_request_id = _client_request_id(request)
        origin = request.wire.get(b"origin")
        if origin is not None and _is_preflight(request):
            response: HttpResponseBase = _preflight(request)
        else:
            response = await _answer(get_response, request)
        response["X-Request-Id"] = request.request_id
        if b"anthropic-version" in request.wire:  # where Anthropic's SDKs look for it
            response["Request-Id"] = request.request_id
        if origin is not None:
            _allow_origin(response, origin.decode("latin-1"))
        if drain.is_draining:
            response["Connection"] = "close"  # the next request goes to a process that stays
        return response

    return middleware


RELAY_MIDDLEWARE: tuple[Middleware, ...] = (edge,)


async def _answer(get_response: GetResponse, request: ClientRequest) -> HttpResponseBase:
    try:
        response = await get_response(request)
    except RequestAborted:  # the client left while it was still sending: nobody to answer
        raise
    except Exception as error:  # noqa: BLE001  the edge: nothing may pass it unrendered
        return errors.render_exception(request, error)
    if response.status_code == 405 and isinstance(response, HttpResponseNotAllowed):
        return errors.render_not_allowed(request, response["Allow"].split(","))
    return response


def _client_request_id(request: ClientRequest) -> str:
    """The client's own id for its request, with everything odd taken out; "" if it gave none."""
    given = request.wire.get(b"x-client-request-id") or request.wire.get(b"x-request-id")
    return _UNCLEAN.sub("", given.decode("latin-1"))[:CLIENT_REQUEST_ID_LENGTH] if given else ""


def _is_preflight(request: ClientRequest) -> bool:
    return request.method == "OPTIONS" and b"access-control-request-method" in request.wire


def _preflight(request: ClientRequest) -> HttpResponse:
    """204 without asking for a key: browsers send none. Headers are those asked for, whatever an SDK adds."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    wire = request.wire
    if not _is_allowed(wire[b"origin"].decode("latin-1")):
        return response
    response["Access-Control-Allow-Methods"] = wire[b"access-control-request-method"].decode("latin-1")
    if asked := wire.get(b"access-control-request-headers"):
        response["Access-Control-Allow-Headers"] = asked.decode("latin-1")
    response["Access-Control-Max-Age"] = str(PREFLIGHT_MAX_AGE_S)
    return response


def _is_allowed(origin: str) -> bool:
    return "*" in settings.CORS_ORIGINS or origin in settings.CORS_ORIGINS


def _allow_origin(response: HttpResponseBase, origin: str) -> None:
    """No credentials mode: keys travel in headers, so `*` may be answered literally."""
    origins = settings.CORS_ORIGINS
    if not origins:
        return
    if "*" in origins:
        response["Access-Control-Allow-Origin"] = "*"
    else:
        response["Vary"] = "Origin, Access-Control-Request-Headers"
        if origin not in origins:
            return
        response["Access-Control-Allow-Origin"] = origin
    response["Access-Control-Expose-Headers"] = "*"
