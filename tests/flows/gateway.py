"""The whole gateway in the test's event loop: real server, real wiring, real store, a simulated upstream."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import openai
import orjson
from django.db import connections

from billing import admission
from billing.models import LedgerEntry, RelayRequest
from billing.tasks import record_settled
from channels_admin.models import ApiKey, Channel, Tenant
from channels_admin.services import tenant_create
from gateway import wiring
from gateway.simulator import Simulator, running_simulator
from relay.upstream.aio_tasks import running_task_names
from tests.factories.channels import a_channel, an_api_key
from tests.factories.money import a_price, funded
from tests.flows.client import Call, Heard
from tests.flows.leftovers import eventually, our_threads, sockets_at
from tests.flows.raw_http import request_bytes
from tests.flows.server import RunningServer, running_server

P = ParamSpec("P")
T = TypeVar("T")

STANDING_TASKS = {"config-poll", "heartbeat", "checkpoints", "health-watch", "overload", "accounts-poll"}
UPSTREAM_SECRET = "sk-upstream-0123456789abcdef"
QUESTION = "one two three four five"


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs ORM work away from the loop and leaves no connection behind."""
    try:
        return function(*args, **kwargs)
    finally:
        connections.close_all()


@dataclass
class Gateway:
    """One tenant with one API key, one channel that serves every model from the simulator."""

    server: RunningServer
    simulator: Simulator
    tenant: Tenant
    api_key: ApiKey
    key: str
    channel: Channel
    threads: ThreadPoolExecutor
    ports: set[int] = field(default_factory=set)

    @property
    def url(self) -> str:
        return self.server.url

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Services, selectors, queries: in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, lambda: in_thread(function, *args, **kwargs))

    async def configure(self, service: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A change of configuration, in force when this returns."""
        result = await self.run(service, *args, **kwargs)
        await wiring.current().configuration.refresh()
        return result

    async def add_channel(self, base_url: str, **fields: Any) -> Channel:
        self.ports.add(urlsplit(base_url).port or 0)
        return await self.configure(a_channel, base_url=base_url, **{"models": ["*"], **fields})

    async def begin(
        self,
        method: str,
        target: str,
        *headers: tuple[str, str],
        body: bytes = b"",
        key: str | None = "",
        receive_buffer: int | None = None,
        version: str = "1.1",
    ) -> Call:
        """Sends a request. key: "" = the tenant's own, None = none."""
        if key is not None:
            headers = (("Authorization", f"Bearer {key or self.key}"), *headers)
        raw = request_bytes(method, target, *headers, body=body, version=version)
        return await Call.begin(self.server.host, self.server.port, raw, receive_buffer=receive_buffer)

    async def ask(self, method: str, target: str, *headers: tuple[str, str], **options: Any) -> Heard:
        async with await self.begin(method, target, *headers, **options) as call:
            return await call.rest()

    async def begin_chat(self, model: str, *headers: tuple[str, str], **fields: Any) -> Call:
        return await self.begin(*self._chat_head, *headers, body=chat_body(model, **fields))

    async def chat(self, model: str, *headers: tuple[str, str], key: str | None = "", **fields: Any) -> Heard:
        return await self.ask(*self._chat_head, *headers, body=chat_body(model, **fields), key=key)

    _chat_head = ("POST", "/v1/chat/completions", ("Content-Type", "application/json"))

    def sdk(self, **options: Any) -> openai.AsyncOpenAI:
        settings = {"base_url": f"{self.url}/v1", "api_key": self.key, "max_retries": 0, "timeout": 10}
        return openai.AsyncOpenAI(**{**settings, **options})

    async def idle(self) -> None:
        """Nothing runs and nothing waits in this process."""
        parts = wiring.current()
        await eventually(lambda: list(parts.engine.running), "requests still run", 8)
        await eventually(lambda: parts.courier.pending, "outcomes the store did not take", 3)

    async def recorded(self) -> None:
        """Every request that has ended has its rows. In the services lane this plays the worker."""
        await self.idle()
        if wiring_is_eager():
            await eventually(_waiting_records, "records not written", 3)
            return
        while await self.run(_waiting_records):
            await self.run(record_settled)

    async def record(self, request_id: str) -> RelayRequest:
        """The row, with its attempts and usage loaded."""
        await self.recorded()
        return await self.run(_row, request_id)

    async def charges(self) -> list[int]:
        """What each charge changed its balance by, nano-USD."""
        await self.recorded()
        return await self.run(_charges)

    async def count(self) -> int:
        await self.recorded()
        return await self.run(RelayRequest.objects.count)

    async def nothing_is_left(self) -> None:
        """Between the last answer and the stop: no request, no record, no connection, no own task."""
        await self.idle()
        await self.recorded()
        await eventually(lambda: self.simulator.running_requests, "the simulator still answers")
        await eventually(lambda: set(running_task_names()) - STANDING_TASKS, "tasks still run")
        await self._nothing_is_held()

    async def _nothing_is_held(self) -> None:
        parts = wiring.current()
        assert not len(parts.open_requests), "requests are still open"
        assert not parts.image_gate.waiting, "somebody waits for an image slot"
        assert not parts.idempotency.waiting, "somebody waits for a request with the same key"
        store = admission.open_records()
        counts = await self.run(store.counts)
        assert counts.running == 0, f"{counts.running} open records"
        assert await self.run(store.open_amounts) == {}, "holds are left"


def chat_body(model: str, text: str = QUESTION, **fields: Any) -> bytes:
    return orjson.dumps({"model": model, "messages": [{"role": "user", "content": text}], **fields})


def wiring_is_eager() -> bool:
    from celery import current_app  # noqa: PLC0415  the app is set up by then

    return bool(current_app.conf.task_always_eager)


def _waiting_records() -> int:
    """A busy machine may not answer within the store's short time limit: once more then."""
    for _ in range(5):
        with contextlib.suppress(admission.StoreUnavailable):
            counts = admission.open_records().counts()
            return counts.waiting + counts.claimed
    raise AssertionError("the store does not answer")


def _row(request_id: str) -> RelayRequest:
    return RelayRequest.objects.select_related("usage").prefetch_related("attempts").get(pk=request_id)


def _charges() -> list[int]:
    return list(
        LedgerEntry.objects.filter(kind="charge").order_by("pk").values_list("amount_nano", flat=True)
    )


def _configured(simulator: Simulator) -> tuple[Tenant, ApiKey, str, Channel]:
    tenant = tenant_create(name="owner")
    funded(tenant)
    a_price("*")
    api_key, key = an_api_key(tenant, name="main")
    channel = a_channel(keys=0, name="simulator", base_url=simulator.base_url, models=["*"])
    from channels_admin.services import upstream_key_add  # noqa: PLC0415  beside its only use

    upstream_key_add(channel_id=channel.pk, plain=UPSTREAM_SECRET)
    return tenant, api_key, key, channel


@contextlib.asynccontextmanager
async def running_gateway(**server_options: Any) -> AsyncIterator[Gateway]:
    """Fails when anything is left behind. Needs a transactional database and settings for this lane."""
    threads = ThreadPoolExecutor(1, thread_name_prefix="flow-test")
    loop = asyncio.get_running_loop()
    try:
        async with running_simulator(pace_s=0.001) as simulator:
            rows = await loop.run_in_executor(threads, lambda: in_thread(_configured, simulator))
            async with running_server(lifespan="on", **server_options) as server:
                gateway = Gateway(server, simulator, *rows, threads)
                gateway.ports |= {server.port, urlsplit(simulator.base_url).port or 0}
                yield gateway
                await gateway.nothing_is_left()
            await eventually(running_task_names, "tasks still run after the stop")
            await eventually(our_threads, "threads still run after the stop")
            await eventually(lambda: simulator.open_connections, "upstream connections stay open")
        await eventually(lambda: sockets_at(gateway.ports), "sockets stay open")
    finally:
        await loop.run_in_executor(None, threads.shutdown)
