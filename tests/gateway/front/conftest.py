"""The HTTP front with stub views, on the production event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop

from gateway import wiring
from gateway.front import drain as draining
from tests.flows.server import RunningServer, running_server


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], Any]]:
    return {"uvloop": uvloop.new_event_loop}


class StubWiring:
    def __init__(self) -> None:
        self.is_started = False
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")
        self.is_started = True

    async def stop(self) -> None:
        self.calls.append("stop")
        self.is_started = False

    def is_ready(self) -> bool:
        return self.is_started


@pytest.fixture
def stub_wiring(monkeypatch: pytest.MonkeyPatch) -> StubWiring:
    """In place of the real composition root: the front must work with any."""
    stub = StubWiring()
    draining.drain.reset()
    for name in ("start", "stop", "is_ready"):
        monkeypatch.setattr(wiring, name, getattr(stub, name))
    return stub


@pytest.fixture
async def front(stub_wiring: StubWiring) -> AsyncIterator[RunningServer]:
    from tests.flows import views  # noqa: PLC0415  needs Django set up

    views.heard.clear()
    async with running_server(views.stub_application(), lifespan="on") as server:
        yield server
        await no_task_is_left()


async def no_task_is_left() -> None:
    """A request leaves nothing behind: no view, no watcher, no uvicorn task."""
    from relay.upstream.aio_tasks import running_task_names  # noqa: PLC0415  keeps the import order plain

    deadline = asyncio.get_running_loop().time() + 1
    while left := running_task_names():
        assert asyncio.get_running_loop().time() < deadline, f"left running: {left}"
        await asyncio.sleep(0.005)
