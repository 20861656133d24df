"""The simulator as a server: starts and stops inside any event loop, and remembers what it was sent.

Must not import: Django, settings, the rest of the gateway.
"""

import asyncio
import contextlib
import hmac
import signal
import time
from collections.abc import AsyncIterator, Callable

from aiohttp import web

import gateway.simulator.behaviours  # noqa: F401 - importing it fills the table of behaviours
from gateway.simulator.endpoints import directory_answer, model_in_path, shape_for
from gateway.simulator.exchange import Exchange, Memory
from gateway.simulator.faults import fault_for
from gateway.simulator.received import Received
from gateway.simulator.registry import choose
from gateway.simulator.shapes.base import Payload
from gateway.simulator.shapes.passthrough import PassThrough

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 4030
DEFAULT_PACE_S = 0.03
_MAX_BODY_BYTES = 256 * 1024 * 1024
_STOP_S = 1.0


class Simulator:
    """One upstream on one port. `requests` holds what came, oldest first, at most `kept_requests` of it."""

    def __init__(
        self,
        *,
        pace_s: float = DEFAULT_PACE_S,
        required_key: str | None = None,
        kept_requests: int = 1000,
        keepalive_s: float = 60.0,
    ) -> None:
        self.requests: list[Received] = []
        self.pace_s = pace_s
        self.required_key = required_key
        self.base_url = ""
        self._kept_requests = kept_requests
        self._memory = Memory()
        self._running: set[asyncio.Task[None]] = set()
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=_STOP_S,
            keepalive_timeout=keepalive_s,
            auto_decompress=False,
        )

    @property
    def open_connections(self) -> int:
        """Connections that clients hold open now, idle ones too."""
        server = self._runner.server
        return len(server.connections) if server is not None else 0

    @property
    def running_requests(self) -> int:
        """Requests being answered now."""
        return len(self._running)

    def reset(self) -> None:
        """Forget the requests, the counts of `flaky-…` and the stored responses."""
        self.requests.clear()
        self._memory = Memory()

    async def start(self, host: str = DEFAULT_HOST, port: int = 0) -> None:
        """Listen; port 0 takes a free one. OSError if the port is taken."""
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, host, port, reuse_address=True)
            await site.start()
        except BaseException:
            await self._runner.cleanup()
            raise
        bound_host, bound_port = self._runner.addresses[0][:2]
        self.base_url = f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"

    async def stop(self) -> None:
        """Stop listening, cut what is running, leave no task and no socket."""
        for task in tuple(self._running):
            task.cancel()
        await self._runner.cleanup()
        # Closed transports tell their protocols in the next turns of the loop.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        received = await self._receive(request)
        exchange = self._exchange(request, received)
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
        try:
            await self._answer(exchange)
        except asyncio.CancelledError:
            received.left_at = time.monotonic()
            raise
        except ConnectionError:  # the client has gone: aiohttp finds that out once more, and says nothing
            received.left_at = time.monotonic()
            return exchange.response or web.Response()
        finally:
            if task is not None:
                self._running.discard(task)
        received.finished_at = time.monotonic()
        return await exchange.finish()

    async def _receive(self, request: web.Request) -> Received:
        body = await request.read()
        received = Received(
            method=request.method,
            path=request.path,
            raw_path=request.raw_path,
            query=dict(request.query),
            headers=tuple(
                (key.decode("latin-1"), value.decode("latin-1")) for key, value in request.raw_headers
            ),
            body=body,
            at=time.monotonic(),
            path_model=model_in_path(request.path),
        )
        received.parse_body()
        self._remember(received)
        return received

    def _remember(self, received: Received) -> None:
        if self._kept_requests:
            self.requests.append(received)
            del self.requests[: -self._kept_requests]

    def _exchange(self, request: web.Request, received: Received) -> Exchange:
        shape = shape_for(received) or PassThrough(received)
        return Exchange(request, received, shape, pace_s=self.pace_s, memory=self._memory)

    async def _answer(self, exchange: Exchange) -> None:
        received = exchange.received
        if shape_for(received) is None:
            await exchange.send_error(fault_for(404, "The simulator serves nothing at this path."))
        elif not self._is_key_right(received):
            await exchange.send_error(fault_for(401, "Incorrect API key provided."))
        elif (known := directory_answer(received, self._memory)) is not None:
            status, body = known
            await exchange.send_payload(Payload(json=body), status=status)
        else:
            await choose(exchange.ask.model)(exchange)

    def _is_key_right(self, received: Received) -> bool:
        if self.required_key is None:
            return True
        wanted = self.required_key.encode()
        return any(hmac.compare_digest(given.encode(), wanted) for given in credentials_of(received))


def credentials_of(received: Received) -> list[str]:
    """The credentials a request carries, in any of the dialects' places."""
    authorization = received.header("authorization") or ""
    scheme, _, bearer = authorization.partition(" ")
    found = [bearer.strip()] if scheme.lower() == "bearer" else []
    found += [
        value for name in ("x-api-key", "api-key", "x-goog-api-key") if (value := received.header(name))
    ]
    if key := received.query.get("key"):
        found.append(key)
    return found


@contextlib.asynccontextmanager
async def running_simulator(
    host: str = DEFAULT_HOST,
    port: int = 0,
    *,
    pace_s: float = DEFAULT_PACE_S,
    required_key: str | None = None,
    kept_requests: int = 1000,
    keepalive_s: float = 60.0,
) -> AsyncIterator[Simulator]:
    """A simulator for the length of a block: in a test's loop, or in the gateway's."""
    simulator = Simulator(
        pace_s=pace_s, required_key=required_key, kept_requests=kept_requests, keepalive_s=keepalive_s
    )
    await simulator.start(host, port)
    try:
        yield simulator
    finally:
        await simulator.stop()


async def serve_simulator(
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    required_key: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until cancelled, keeping no requests. `on_ready` gets the base URL."""
    async with running_simulator(host, port, required_key=required_key, kept_requests=0) as simulator:
        if on_ready is not None:
            on_ready(simulator.base_url)
        await asyncio.Event().wait()


def run_simulator(
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    required_key: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve in a process of its own until SIGINT or SIGTERM, then stop cleanly and return."""
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_until_signalled(host, port, required_key=required_key, on_ready=on_ready))


async def _until_signalled(
    host: str, port: int, *, required_key: str | None, on_ready: Callable[[str], None] | None
) -> None:
    task = asyncio.current_task()
    if task is not None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    await serve_simulator(host, port, required_key=required_key, on_ready=on_ready)
