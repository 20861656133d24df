"""One question to several gateways, raced: the client's side of hedging, on the gateway's own engine.

The first gateway is asked; when it is late the second is asked as well, and whichever proves itself first
answers. When all have failed, the first is asked once more without streaming. Must not import Django, models
or settings.
"""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network

import orjson

from gateway.alone import FixedControl, OneOutcome
from relay.core.dialects.openai_chat import OPENAI_CHAT
from relay.core.errors import Refusal
from relay.core.outcomes import RequestOutcome
from relay.core.path_families import PathFamily
from relay.core.request import RelayRequest
from relay.core.types import Caller, Channel, ModelRoute, RelayFlags, StreamPolicy
from relay.upstream.clock import LoopClock
from relay.upstream.engine import Engine
from relay.upstream.transports.build import build_transport

DELAY_S = 0.8
FIRST_EVENT_S = 15.0
IDLE_S = 20.0
FALLBACK_S = 30.0
_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Patience:
    """delay_s: without a valid event, until the second gateway is asked as well. fallback_s: of the whole
    answer that is asked for last.
    """

    delay_s: float = DELAY_S
    first_event_s: float = FIRST_EVENT_S
    idle_s: float = IDLE_S
    fallback_s: float = FALLBACK_S


@dataclass(frozen=True, slots=True)
class Raced:
    """told: why there was no answer, scrubbed; else empty."""

    outcome: RequestOutcome
    told: str


async def race(
    gateways: Sequence[Channel],
    model: str,
    prompt: str,
    patience: Patience,
    *,
    write: Callable[[bytes], None],
    allowed_private_nets: Sequence[IPv4Network | IPv6Network],
) -> Raced:
    """write: gets the answer's events as they come. Never raises for what the gateways do."""
    transport = build_transport(allowed_private_nets)
    await transport.start()
    recorder = OneOutcome()
    engine = Engine(
        transport=transport,
        clock=LoopClock(),
        chance=random.Random(),
        control=FixedControl(_flags(patience, len(gateways))),
        recorder=recorder,
    )
    try:
        policy = StreamPolicy(
            header_timeout_s=patience.first_event_s,
            first_event_timeout_s=patience.first_event_s,
            idle_timeout_s=patience.idle_s,
        )
        channels = [replace(one, policy=policy) for one in gateways]
        told = await _read(engine, _request(model, prompt, patience.delay_s), channels, write)
        return Raced(await recorder.outcome, told)
    finally:
        await engine.aclose()
        await transport.aclose()


async def _read(
    engine: Engine, request: RelayRequest, channels: list[Channel], write: Callable[[bytes], None]
) -> str:
    running = engine.start(request, channels)
    told = ""
    try:
        await running.head()
        async for data in running.pump:
            write(data)
    except Refusal as refusal:
        told = refusal.message
    running.client_done(consumed=True)
    await running.join()
    return told


def _flags(patience: Patience, gateways: int) -> RelayFlags:
    return RelayFlags(
        header_timeout_s=patience.first_event_s,
        non_stream_timeout_s=patience.fallback_s,
        channel_retry_times=0,
        retry_times=gateways - 1,
        hedge_max_share=1.0,
    )


def _request(model: str, prompt: str, delay_s: float) -> RelayRequest:
    messages = [{"role": "user", "content": prompt}]
    body = orjson.dumps({"model": model, "stream": True, "messages": messages})
    return RelayRequest(
        id=f"race-{uuid.uuid4()}",
        caller=Caller(api_key_id=0, tenant_id=0, tenant_name="race", group="race"),
        method="POST",
        path=_PATH,
        query="",
        headers=((b"content-type", b"application/json"),),
        body=body,
        family=PathFamily.CHAT,
        dialect=OPENAI_CHAT,
        ask=OPENAI_CHAT.parse_request(body),
        is_replayable=True,
        is_image=False,
        received_at=time.monotonic(),
        route=ModelRoute(id=0, model=model, hedge_after_s=delay_s, degrade_to_non_stream=True),
    )
