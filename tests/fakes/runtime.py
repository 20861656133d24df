"""The stream runtime without the gateway: requests, channels, ports, and a client that reads.

`FakeClock` moves only when told; `FakeTransport` is an upstream whose every byte the test decides.
"""

import asyncio
import heapq
import itertools
import random
from dataclasses import dataclass, field, replace

import httpx
import orjson

from relay.core.dialects import DIALECTS
from relay.core.dialects.base import ReadsTargets
from relay.core.end_reasons import EndReason
from relay.core.errors import Refusal
from relay.core.estimate import Evidence
from relay.core.outcomes import RequestOutcome
from relay.core.path_families import classify, is_image, is_replayable
from relay.core.request import RelayRequest
from relay.core.types import Caller, Channel, ModelRoute, PlainSecret, RelayFlags, StreamPolicy, UpstreamKey
from relay.upstream.answer import Head
from relay.upstream.clock import LoopClock
from relay.upstream.engine import Engine
from relay.upstream.running import RunningRequest
from relay.upstream.transports.contract import EXT_TRACE, BodyStream, UpstreamResponse

_ids = itertools.count(1)

SSE = {"content-type": "text/event-stream"}
ROLE = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n'
HELLO = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}\n\n'
WORLD = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":" world"},"finish_reason":null}]}\n\n'
STOP = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"id":"c","model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"overloaded","type":"server_error","code":"overloaded"}}\n\n'
WHOLE = orjson.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello world"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }
)


@dataclass
class KeptOutcomes:
    """A recorder: `one` fails unless exactly one outcome was reported."""

    outcomes: list[RequestOutcome] = field(default_factory=list)

    evidence: list[Evidence] = field(default_factory=list)

    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:
        self.outcomes.append(outcome)
        self.evidence.append(evidence)

    @property
    def one(self) -> RequestOutcome:
        assert len(self.outcomes) == 1, self.outcomes
        return self.outcomes[0]


NO_REPEATS = RelayFlags(channel_retry_times=0)
"""A failed attempt is not repeated with its own key, so a test that is about something else need not wait."""


@dataclass
class StaticControl:
    current: RelayFlags = NO_REPEATS
    refused_keys: set[int] = field(default_factory=set)
    auto_disabled: set[int] = field(default_factory=set)

    def flags(self) -> RelayFlags:
        return self.current

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool:
        return key.id not in self.refused_keys

    def is_auto_disabled(self, key: UpstreamKey) -> bool:
        return key.id in self.auto_disabled


def a_channel(
    base_url: str = "http://upstream.test", *, number: int = 1, policy: StreamPolicy | None = None, **fields
):
    return Channel(
        id=number,
        name=f"channel-{number}",
        kind="openai",
        base_url=base_url,
        models=("*",),
        keys=(UpstreamKey(number, f"sk-…{number}", PlainSecret(f"sk-upstream-{number}")),),
        policy=policy or StreamPolicy(),
        **fields,
    )


def a_request(
    *,
    stream: bool = True,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    dialect: str = "openai_chat",
    body: bytes | None = None,
    received_at: float = 0.0,
    idempotency_key: str | None = None,
    route: ModelRoute | None = None,
    query: str = "",
    **fields,
) -> RelayRequest:
    if body is None:
        asked = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}], **fields}
        body = orjson.dumps(asked)
    family = classify(path)
    spoken = DIALECTS[dialect]
    return RelayRequest(
        id=f"request-{next(_ids)}",
        caller=Caller(api_key_id=1, tenant_id=1, tenant_name="t", group="default"),
        method=method,
        path=path,
        query=query,
        headers=((b"content-type", b"application/json"),),
        body=body,
        family=family,
        dialect=spoken,
        ask=spoken.parse_call(path, query, body)
        if isinstance(spoken, ReadsTargets)
        else spoken.parse_request(body),
        is_replayable=is_replayable(
            family, method, idempotency_key=idempotency_key, artefact=route is not None and route.is_artefact
        ),
        is_image=is_image(family),
        received_at=received_at,
        route=route,
    )


class FakeClock:
    """Time passes in `advance` alone; timers fire in order, each with the loop settled around it."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return 1_700_000_000.0 + self._now

    def call_at(self, when, callback):
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    @property
    def armed(self) -> int:
        return sum(1 for _, _, timer in self._timers if timer.callback is not None)

    async def advance(self, seconds: float) -> None:
        await settle()
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
            await settle()
        self._now = end
        await settle()


@dataclass
class FakeTimer:
    callback: object

    def cancel(self) -> None:
        self.callback = None


async def settle(turns: int = 30) -> None:
    """Lets every task that can run do so, without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


class FakeBody(BodyStream):
    def __init__(self) -> None:
        self._arrived: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.is_closed = False

    def send(self, *data: bytes) -> None:
        self._arrived.put_nowait(b"".join(data))

    def end(self) -> None:
        self._arrived.put_nowait(b"")

    def fail(self, error: Exception) -> None:
        self._arrived.put_nowait(error)

    async def read_some(self) -> bytes:
        item = await self._arrived.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self) -> None:
        self.is_closed = True


@dataclass
class FakeExchange:
    """One upstream request: the test moves it from dialling to headers to body."""

    request: httpx.Request
    clock: FakeClock
    body: FakeBody = field(default_factory=FakeBody)
    answered: asyncio.Future = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    was_cancelled: bool = False

    def connect(self) -> None:
        self.request.extensions[EXT_TRACE].connected_at = self.clock.now()

    def sent(self) -> None:
        self.connect()
        self.request.extensions[EXT_TRACE].sent_at = self.clock.now()

    def headers(self, status: int = 200, headers: dict[str, str] | None = None) -> FakeBody:
        self.answered.set_result(
            UpstreamResponse(
                status, httpx.Headers(SSE if headers is None else headers).raw, self.body, self.request
            )
        )
        return self.body

    def refuse(self, error: Exception) -> None:
        self.answered.set_exception(error)


class FakeTransport:
    """`exchanges` grows with each upstream request."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.exchanges: list[FakeExchange] = []

    async def start(self) -> None: ...

    async def handle_async_request(self, request: httpx.Request) -> UpstreamResponse:
        exchange = FakeExchange(request, self._clock)
        self.exchanges.append(exchange)
        try:
            return await exchange.answered
        except asyncio.CancelledError:
            exchange.was_cancelled = True
            exchange.body.is_closed = True  # a response that came in the same step goes with it
            raise

    async def aclose(self) -> None: ...

    async def exchange(self, number: int = 0) -> FakeExchange:
        await settle()
        assert len(self.exchanges) > number, "no such upstream request was made"
        return self.exchanges[number]

    @property
    def open_bodies(self) -> list[FakeExchange]:
        """Those whose answer was given to the engine, which has not closed it."""
        return [
            one
            for one in self.exchanges
            if one.answered.done()
            and not one.answered.cancelled()
            and one.answered.exception() is None
            and not one.body.is_closed
        ]


class Client:
    """Reads one answer to its end, like a client that takes whatever comes."""

    def __init__(self, running: RunningRequest) -> None:
        self.running = running
        self.head: Head | None = None
        self.refusal: Refusal | None = None
        self.received = bytearray()
        self.is_ended = False
        self.has_left = False
        self.task = asyncio.get_running_loop().create_task(self._read(), name="client")

    async def _read(self) -> None:
        try:
            self.head = await self.running.head()
        except Refusal as refusal:
            self.refusal = refusal
            self.is_ended = True
            return
        if self.head.body is not None:
            self.received += self.head.body
        else:
            async for data in self.running.pump:
                self.received += data
        self.is_ended = True
        self.running.client_done(consumed=True)
        await self.running.join()

    async def leave(self) -> None:
        """Closes its side, as the handler reports it."""
        self.has_left = True
        self.running.stop(EndReason.CLIENT_DISCONNECTED)
        await settle()
        if not self.task.done():
            self.task.cancel()
        self.running.client_done(consumed=False)
        await self.running.join()
        await settle()

    async def end(self) -> "Client":
        await self.task
        await self.running.join()
        return self


def an_engine(transport, *, recorder, clock=None, control=None, seed: int = 1, **fields) -> Engine:
    return Engine(
        transport=transport,
        clock=clock or LoopClock(),
        chance=random.Random(seed),
        control=control or StaticControl(),
        recorder=recorder,
        **fields,
    )


def with_policy(channel: Channel, **policy) -> Channel:
    return replace(channel, policy=replace(channel.policy, **policy))
