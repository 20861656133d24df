"""Fixtures of the contract suite: each transport on each event loop, and nothing left behind."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
import uvloop

from relay.upstream.aio_tasks import running_task_names
from relay.upstream.transports.aiohttp_transport import AiohttpTransport
from relay.upstream.transports.contract import EXT_TRACE, DialTrace
from relay.upstream.transports.httptools_transport import HttptoolsTransport
from tests.fakes.tls_authority import TlsAuthority, make_authority

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
TRANSPORTS = [AiohttpTransport, HttptoolsTransport]


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tls_authority(tmp_path_factory) -> TlsAuthority:
    return make_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=TRANSPORTS, ids=lambda kind: kind.__name__)
def transport_kind(request):
    return request.param


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """After the transport is closed there are no more tasks and sockets than before."""
    before = _sockets()
    tasks_before = asyncio.all_tasks()
    yield
    for _ in range(100):
        leaked_sockets = _sockets() - before
        leaked_tasks = {task for task in asyncio.all_tasks() - tasks_before if not task.done()}
        leaked_tasks.discard(asyncio.current_task())
        if not leaked_sockets and not leaked_tasks and not running_task_names():
            break
        await asyncio.sleep(0.005)
    gc.collect(1)  # an unclosed transport would warn here, and warnings are errors
    assert not leaked_tasks
    assert not running_task_names()
    assert not leaked_sockets


@pytest.fixture
async def make_transport(transport_kind, no_leaks) -> AsyncIterator[Callable[..., AiohttpTransport]]:
    made = []

    def make(nets=LOOPBACK, **options):
        made.append(transport_kind(nets, **options))
        return made[-1]

    yield make
    for transport in made:
        await transport.aclose()


@pytest.fixture
async def transport(make_transport) -> AiohttpTransport:
    transport = make_transport()
    await transport.start()
    return transport


@pytest.fixture
def trace() -> DialTrace:
    return DialTrace()


@pytest.fixture
def post(transport, trace) -> Callable[..., object]:
    """Sends one request through the transport, traced in `trace`; extensions without their `relay.`."""

    async def send(url: str, content=b'{"model": "m"}', method="POST", headers=None, **extensions):
        request = httpx.Request(
            method,
            url,
            content=content,
            headers=headers,
            extensions={EXT_TRACE: trace} | {f"relay.{name}": value for name, value in extensions.items()},
        )
        return await transport.handle_async_request(request)

    return send


def _sockets() -> set[str]:
    """Open sockets but for UNIX pairs, which event loops make for themselves."""
    unix = {line.split()[6] for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]}
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("socket:") and target[8:-1] not in unix:
                found.add(target)
    return found
