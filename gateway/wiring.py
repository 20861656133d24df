"""Composition root: builds once per process what a request needs, and takes it down again."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings

from billing.admission import AdmissionPort, SettledRecord, admission_port
from billing.admission.mirror import Mirror, mirror_start
from billing.core.money import nano_from_usd
from billing.courier import Courier
from billing.selectors.accounts import account_state
from channels_admin.health import health_store
from channels_admin.selectors.api_keys import AccessChanges
from gateway.admission import Admissions, OpenRequests
from gateway.admission.accounts import AccountsPoll
from gateway.admission.checkpoints import StreamProgress
from gateway.admission.idempotency import Idempotency
from gateway.admission.image_gate import ImageGate
from gateway.admission.leases import AttemptLeases
from gateway.admission.outage import OutageAllowance
from gateway.admission.reporting import OutcomeReporter
from gateway.api_keys import ApiKeyDirectory
from gateway.config import Configuration
from gateway.front.drain import drain
from gateway.health_watch import HealthWatch
from gateway.overload import Overload
from gateway.revocation import Revocation
from gateway.schedule import GATEWAY_SCHEDULE
from gateway.threads import DatabaseThreads
from gateway.ticker import Ticker
from relay.core.end_reasons import EndReason
from relay.core.types import Channel, RelayFlags, UpstreamKey
from relay.upstream.clock import LoopClock
from relay.upstream.engine import Engine
from relay.upstream.transports.build import build_transport
from relay.upstream.transports.contract import RelayTransport


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of one serving process."""

    configuration: Configuration
    api_keys: ApiKeyDirectory
    overload: Overload
    health: HealthWatch
    image_gate: ImageGate
    idempotency: Idempotency
    open_requests: OpenRequests
    admissions: Admissions
    courier: Courier
    transport: RelayTransport
    engine: Engine
    threads: DatabaseThreads
    chance: random.Random
    revocation: Revocation
    embedded: "Embedded | None"
    forget_drain: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Embedded:
    """What one process does by itself where others have Redis, a worker and beat."""

    mirror: Mirror | None
    ticker: Ticker
    accounts: AccountsPoll


class LiveControl:
    """What the engine asks before a further attempt, answered from the newest snapshot."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def flags(self) -> RelayFlags:
        return self._configuration.current.channels.flags

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool:
        now = self._configuration.current.channels.channels.get(channel.id)
        return now is channel or (now is not None and any(k.id == key.id for k in now.keys))

    def is_auto_disabled(self, key: UpstreamKey) -> bool:
        return key.id in self._configuration.current.channels.auto_disabled_keys


class _Process:
    """The one wiring of this process, while it lasts."""

    wiring: Wiring | None = None
    starting: asyncio.Future[None] | None = None


def current() -> Wiring:
    """Raises RuntimeError before `start`: the handler starts it with the first request at the latest."""
    if _Process.wiring is None:
        raise RuntimeError("the gateway was not started")
    return _Process.wiring


def is_ready() -> bool:
    """True from the first configuration snapshot on."""
    return _Process.wiring is not None


async def start() -> None:
    """Idempotent. Called by the server's lifespan, or by the first request where there is none."""
    if _Process.wiring is not None:
        return
    if _Process.starting is not None:
        await asyncio.shield(_Process.starting)
        return
    _Process.starting = asyncio.get_running_loop().create_future()
    try:
        _Process.wiring = await _build()
    finally:
        _Process.starting.set_result(None)
        _Process.starting = None


async def stop() -> None:
    """Called when all requests are over. Ends what still runs, flushes the courier, closes everything."""
    wiring, _Process.wiring = _Process.wiring, None
    if wiring is None:
        return
    wiring.forget_drain()
    await wiring.overload.aclose()
    await wiring.engine.aclose()
    await wiring.courier.aclose()
    await wiring.idempotency.aclose()
    await wiring.open_requests.aclose()
    if wiring.embedded is not None:
        await _stop_embedded(wiring.embedded)
    await wiring.health.aclose()
    await wiring.transport.aclose()
    await wiring.configuration.aclose()
    await wiring.api_keys.aclose()
    await wiring.threads.aclose()
    await admission_port().aclose()


async def _build() -> Wiring:
    api_keys = ApiKeyDirectory(lambda: configuration.current.version)

    told: list[Callable[[AccessChanges], None]] = []  # empty until something can run

    def on_access_change(changes: AccessChanges, version: int) -> None:
        api_keys.drop(changes, version)
        for tell in told:
            tell(changes)

    configuration = Configuration(on_access_change)
    await configuration.start()
    embedded = await _start_embedded() if not settings.REDIS_URL else None
    port = admission_port()
    open_requests = OpenRequests(
        port,
        on_written_again=lambda epoch: idempotency.write_again(epoch),  # noqa: PLW0108  made below
    )
    idempotency = Idempotency(
        port.idempotency,
        epoch=lambda: open_requests.epoch,
        is_on=lambda: bool(configuration.current.channels.flag_values["IDEMPOTENT_ANSWERS"]),
        is_running=lambda request_id: request_id in engine.running,
    )
    image_gate = ImageGate()

    def on_settled(records: Sequence[SettledRecord]) -> None:
        open_requests.settled(records)
        idempotency.settled(records)
        image_gate.released()  # the leases went with the settlement

    courier = Courier(port=port, on_settled=on_settled)
    await courier.start()
    transport = build_transport(settings.UPSTREAM_ALLOWED_PRIVATE_NETS)
    await transport.start()
    health = HealthWatch(health_store(), threshold=lambda: _count(configuration, "HEALTH_FAILURE_THRESHOLD"))
    await health.start()
    chance = random.Random()
    engine = Engine(
        transport=transport,
        clock=LoopClock(),
        chance=chance,
        control=LiveControl(configuration),
        recorder=OutcomeReporter(
            open_requests, courier, port=port, configuration=configuration, idempotency=idempotency
        ),
        health=health,
        leases=AttemptLeases(port, open_requests),
        max_event_bytes=settings.SSE_MAX_EVENT_BYTES,
    )
    threads = DatabaseThreads(name="requests", size=2)
    revocation = Revocation(engine, threads)
    told.append(revocation.note)
    await open_requests.start(StreamProgress(engine.running), lambda one: _exhausted(engine, one))
    overload = _overload(engine, courier, configuration)
    overload.start()
    return Wiring(
        configuration=configuration,
        api_keys=api_keys,
        overload=overload,
        health=health,
        image_gate=image_gate,
        idempotency=idempotency,
        open_requests=open_requests,
        admissions=_admissions(port, open_requests, image_gate, threads),
        courier=courier,
        transport=transport,
        engine=engine,
        threads=threads,
        chance=chance,
        revocation=revocation,
        embedded=embedded,
        forget_drain=drain.on_stop_all(lambda: _stop_all(engine, idempotency)),
    )


def _admissions(
    port: AdmissionPort, open_requests: OpenRequests, image_gate: ImageGate, threads: DatabaseThreads
) -> Admissions:
    return Admissions(
        port,
        open_requests,
        image_gate,
        load_account=lambda tenant: threads.read(account_state, tenant),
        outage=OutageAllowance(nano_from_usd(Decimal(str(settings.OUTAGE_SPEND_CAP)))),
    )


def _overload(engine: Engine, courier: Courier, configuration: Configuration) -> Overload:
    return Overload(
        is_full=lambda: courier.is_full,
        active_streams=lambda: sum(one.request.ask.stream for one in engine.running.values()),
        active_requests=lambda: len(engine.running),
        streams_max=lambda: _count(configuration, "MAX_ACTIVE_STREAMS"),
    )


async def _start_embedded() -> Embedded:
    """First of all: what an earlier life of this process left is back before anything is admitted."""
    mirror = await asyncio.to_thread(mirror_start)
    ticker, accounts = Ticker(GATEWAY_SCHEDULE), AccountsPoll(admission_port())
    ticker.start()
    accounts.start()
    return Embedded(mirror, ticker, accounts)


async def _stop_embedded(embedded: Embedded) -> None:
    await embedded.accounts.aclose()
    await asyncio.to_thread(embedded.ticker.stop)
    if embedded.mirror is not None:
        await asyncio.to_thread(embedded.mirror.stop)


def _count(configuration: Configuration, flag: str) -> int:
    return int(str(configuration.current.channels.flag_values[flag]))


def _stop_all(engine: Engine, idempotency: Idempotency) -> None:
    """Those who wait first: they would begin when what they wait for ends."""
    idempotency.stop_waiting()
    engine.stop_all(EndReason.GATEWAY_SHUTDOWN)


def _exhausted(engine: Engine, request_id: str) -> None:
    running = engine.running.get(request_id)
    if running is not None:
        running.stop(EndReason.BALANCE_EXHAUSTED)
