"""A runtime on a fake clock and a fake transport; after each test nothing of it may be left."""

from dataclasses import dataclass, field

import pytest

from relay.upstream.aio_tasks import running_task_names
from relay.upstream.engine import Engine
from tests.fakes.runtime import (
    Client,
    FakeBody,
    FakeClock,
    FakeExchange,
    FakeTransport,
    KeptOutcomes,
    StaticControl,
    a_channel,
    a_request,
    an_engine,
    settle,
)


@dataclass
class Runtime:
    clock: FakeClock = field(default_factory=FakeClock)
    recorder: KeptOutcomes = field(default_factory=KeptOutcomes)
    control: StaticControl = field(default_factory=StaticControl)
    max_event_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        self.transport = FakeTransport(self.clock)
        self.engine: Engine = an_engine(
            self.transport,
            recorder=self.recorder,
            clock=self.clock,
            control=self.control,
            max_event_bytes=self.max_event_bytes,
        )

    def ask(self, *channels, **request) -> Client:
        request.setdefault("received_at", self.clock.now())
        return Client(self.engine.start(a_request(**request), channels or (a_channel(),)))

    async def exchange(self, number: int = 0) -> FakeExchange:
        return await self.transport.exchange(number)

    async def sent(self, number: int = 0) -> FakeExchange:
        """The request is with the upstream, headers are awaited."""
        exchange = await self.exchange(number)
        exchange.sent()
        return exchange

    async def streaming(self, *data: bytes, number: int = 0) -> FakeBody:
        """Headers of a stream were seen, and `data`."""
        body = (await self.sent(number)).headers()
        if data:
            body.send(*data)
        await settle()
        return body


@pytest.fixture
async def runtime():
    made = Runtime()
    yield made
    await settle()
    assert not made.engine.running, "a relay request was left running"
    assert not running_task_names(), "a task was left running"
    assert not made.clock.armed, "a timer was left armed"
    assert not made.transport.open_bodies, "an upstream body was left open"
