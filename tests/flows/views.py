"""Views and an application to try the HTTP front with: what they do is in their names.

`stub_application()` is the gateway's own application with these URLs in place of the relay's.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path
from ninja import NinjaAPI

from gateway.api import errors
from gateway.front import health
from gateway.front.connection import ClientConnection
from gateway.front.request import client_request
from gateway.front.sending import Send, encoded_headers
from relay.core.errors import Refusal

heard: list[str] = []
"""What the views noticed, in order; a test clears it."""

running: "set[TickingResponse]" = set()


class TickingResponse(HttpResponseBase):
    """A stream: `count` chunks of `size` bytes, `pause_s` apart, until the client leaves."""

    streaming = True

    def __init__(self, count: int, pause_s: float, size: int = 5) -> None:
        super().__init__(content_type="text/plain")
        self._count, self._pause_s, self._size = count, pause_s, size
        self._left = asyncio.Event()
        running.add(self)

    async def transmit(self, send: Send, connection: ClientConnection) -> None:
        try:
            await self._write(send, connection)
        finally:
            running.discard(self)

    def client_left(self) -> None:
        heard.append("client_left")
        self._left.set()

    def stop(self) -> None:
        self._left.set()

    async def _write(self, send: Send, connection: ClientConnection) -> None:
        heard.append("transmitting")
        await send({"type": "http.response.start", "status": 200, "headers": encoded_headers(self.items())})
        for _ in range(self._count):
            await send({"type": "http.response.body", "body": b"x" * self._size, "more_body": True})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), self._pause_s)
            if self._left.is_set():
                heard.append("stopped")
                await send({"type": "http.response.body", "body": b"stopped"})
                return
        await send({"type": "http.response.body", "body": b""})
        heard.append(f"done {connection.unsent()} {connection.unacknowledged()}")


class LingeringResponse(TickingResponse):
    """Complete at once for the client; whoever wrote it still has something to wait for."""

    async def transmit(self, send: Send, connection: ClientConnection) -> None:
        await super().transmit(send, connection)
        await asyncio.sleep(0.25)
        heard.append("lingered")


def stop_all() -> None:
    """What the relay does when the grace of a shutdown is over."""
    for response in tuple(running):
        response.stop()


api = NinjaAPI(docs_url=None, openapi_url=None, urls_namespace="front-tests")
errors.install(api)


@api.post("/v1/echo")
async def echo(request: HttpRequest) -> HttpResponse:
    await client_request(request).read_body()
    return HttpResponse(request.body, content_type="application/octet-stream")


@api.api_operation(["GET", "POST"], "/v1/seen/{path:rest}")
async def seen(request: HttpRequest, rest: str) -> HttpResponse:
    """Everything the contract promises about the request, as JSON."""
    await client_request(request).read_body()
    return JsonResponse(
        {
            "method": request.method,
            "rest": rest,
            "path": request.path,
            "raw_path": request.raw_path.decode(),
            "query": dict(request.GET.lists()),
            "headers": [[name.decode(), value.decode("latin-1")] for name, value in request.relay_headers],
            "body_length": len(request.body),
            "client_ip": request.client_ip,
            "request_id": request.request_id,
            "client_request_id": request.client_request_id,
            "age_s": time.monotonic() - request.received_at,
            "cookies": request.COOKIES,
            "is_abortable": request.connection.can_abort,
        }
    )


@api.post("/v1/form")
async def form(request: HttpRequest) -> HttpResponse:
    await client_request(request).read_body()
    return JsonResponse(
        {
            "fields": dict(request.POST.lists()),
            "files": [[file.name, file.size] for file in request.FILES.getlist("image[]")],
        }
    )


@api.get("/v1/sync")
def sync(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"sync")


@api.get("/v1/big")
async def big(request: HttpRequest, size: int) -> HttpResponse:
    return HttpResponse(b"y" * size)


@api.get("/v1/wait")
async def wait(request: HttpRequest) -> HttpResponse:
    heard.append("waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        heard.append("cancelled")
        raise
    return HttpResponse(b"")


@api.get("/v1/tick")
async def tick(request: HttpRequest, count: int = 3, pause_ms: int = 10, size: int = 5) -> TickingResponse:
    return TickingResponse(count, pause_ms / 1000, size)


@api.get("/v1/linger")
async def linger(request: HttpRequest) -> TickingResponse:
    return LingeringResponse(1, 0)


@api.post("/v1/unread")
async def unread(request: HttpRequest) -> TickingResponse:
    """A stream that does not care for the body."""
    return TickingResponse(1000, 0.05)


@api.post("/v1/forgotten")
async def forgotten(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.body)


@api.post("/v1/closed")
async def closed(request: HttpRequest) -> HttpResponse:
    """Refuses from the head alone, as a missing key is."""
    raise Refusal(401, "No.", kind="authentication_error")


@api.get("/v1/generator")
async def generator(request: HttpRequest) -> StreamingHttpResponse:
    """Django's own streaming response, without end."""

    async def chunks() -> AsyncIterator[bytes]:
        heard.append("generating")
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            heard.append("generator closed")

    return StreamingHttpResponse(chunks())


@api.get("/v1/stubborn")
async def stubborn(request: HttpRequest) -> TickingResponse:
    """Answers although it was cancelled."""
    heard.append("waiting")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    return TickingResponse(100, 5.0)


@api.get("/v1/heard")
async def tell(request: HttpRequest, clear: bool = False) -> HttpResponse:
    """For servers in another process."""
    told = JsonResponse(list(heard), safe=False)
    if clear:
        heard.clear()
    return told


@api.get("/v1/refuse")
async def refuse(request: HttpRequest) -> HttpResponse:
    raise Refusal(429, "Slow down.", kind="rate_limit_error", code="rate_limited", retry_after_s=7)


@api.get("/v1/crash")
async def crash(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("the prompt was: SECRET-PROMPT")


@api.get("/v1/empty")
async def empty(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


async def plain(request: HttpRequest) -> Any:
    """A Django view, not ninja's."""
    if "nothing" in request.GET:
        return None
    if "crash" in request.GET:
        raise RuntimeError("SECRET-PROMPT")
    return HttpResponse(b"plain")


def threaded(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"threaded")


urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("v1/plain", plain),
    path("v1/threaded", threaded),
    path("", api.urls),
]


def stub_application(max_body_bytes: int = 1_000_000) -> Any:
    from gateway.asgi import Application  # noqa: PLC0415  sets Django up, which pytest has its own turn for
    from gateway.front.handler import RelayHandler  # noqa: PLC0415  likewise
    from gateway.front.middleware import RELAY_MIDDLEWARE  # noqa: PLC0415  likewise

    return Application(RelayHandler(RELAY_MIDDLEWARE, urlconf=__name__, max_body_bytes=max_body_bytes))
