"""The ASGI application: the relay's paths to the slim handler, everything else to Django, and lifespan.

`application` is what servers import. Under Daphne there is no lifespan: the relay handler then starts
the wiring on the first request.
"""

import asyncio
import functools
import gc
import logging
import os
import signal
from typing import Any

from channels.routing import URLRouter  # type: ignore[import-untyped]  # Channels ships no types
from channels.security.websocket import AllowedHostsOriginValidator  # type: ignore[import-untyped]  # ditto
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
_console = get_asgi_application()  # sets Django up: what follows may import models and settings

from django.conf import settings
from django.urls import re_path

from gateway import wiring
from gateway.front import drain as draining
from gateway.front.handler import RelayHandler
from gateway.front.middleware import RELAY_MIDDLEWARE
from gateway.front.sending import Receive, Scope, Send
from gateway.front.server import SHUTDOWN_NET_S, watch_parent
from relay.core.errors import described

_logger = logging.getLogger(__name__)

_RELAY_PATHS = frozenset({"/v1", "/v1beta", "/healthz", "/readyz", "/metrics"})
_RELAY_PREFIXES = ("/v1/", "/v1beta/")


def is_relay_path(scope: Scope) -> bool:
    """Decided without the root path: with it, `/v1` would quietly fall to the slow handler."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith(_RELAY_PREFIXES) or path in _RELAY_PATHS


RELAY_SOCKETS: list[Any] = []
"""Routes of consumers that authenticate by API key: SDKs send no Origin, browsers any."""
CONSOLE_SOCKETS: list[Any] = []
"""Routes of consumers that live on the console's cookie: its own origin only."""


class Application:
    """Dispatches by scope type and path. `relay` is the only part that tests replace."""

    def __init__(self, relay: RelayHandler) -> None:
        self._relay = relay
        self._relay_socket = _router(RELAY_SOCKETS)
        self._console_socket = AllowedHostsOriginValidator(_router(CONSOLE_SOCKETS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http" if is_relay_path(scope):
                await self._relay(scope, receive, send)
            case "http":
                await _console(scope, receive, send)
            case "websocket" if is_relay_path(scope):
                await self._relay_socket(scope, receive, send)
            case "websocket":
                await self._console_socket(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)
            case other:
                raise ValueError(f"unknown scope type {other}")


def _router(routes: list[Any]) -> Any:
    # Routes end in ASGI applications, not in views: Channels uses Django's URL patterns so.
    return URLRouter([*routes, re_path(r"", _refuse_websocket)])  # type: ignore[arg-type]  # see above


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await _startup()
            except Exception as error:
                _logger.exception("start-up failed")
                await send({"type": "lifespan.startup.failed", "message": type(error).__qualname__})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            try:
                await _shutdown()
            except Exception as error:  # noqa: BLE001  the server would log its message, which may quote anything
                _logger.error("shutdown failed: %s", described(error))  # noqa: TRY400  likewise
                await send({"type": "lifespan.shutdown.failed", "message": type(error).__qualname__})
                return
            await send({"type": "lifespan.shutdown.complete"})
            return


def _settle_garbage_collector() -> None:
    """What start-up made stays for good: it is left out of every later collection.

    A full pass over Django's modules and models costs tens of milliseconds, and a request makes enough
    small objects to cause the small passes many times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


async def _startup() -> None:
    loop = asyncio.get_running_loop()
    draining.drain.reset()
    await wiring.start()
    _settle_garbage_collector()
    server_handler = signal.getsignal(signal.SIGTERM)
    draining.install_signal_handlers(loop)
    if callable(server_handler):
        # The listener of an orphan is in its successor's way: no readiness delay.
        leave = functools.partial(draining.leave, loop, server_handler, signal.SIGTERM, 0.0)
        give_up_after_s = settings.SHUTDOWN_GRACE_SECONDS + 2 * SHUTDOWN_NET_S
        watch_parent(lambda: loop.call_soon_threadsafe(leave), give_up_after_s)


async def _shutdown() -> None:
    draining.drain.begin()
    await wiring.stop()


async def _refuse_websocket(_scope: Scope, receive: Receive, send: Send) -> None:
    """No such socket: closing before accepting is answered with 403 by the server."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


application = Application(
    RelayHandler(RELAY_MIDDLEWARE, urlconf="gateway.relay_urls", max_body_bytes=settings.MAX_BODY_BYTES)
)
