"""Another channel answers, stream policies through the SDK, and configuration that changes while we serve."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from channels_admin.services import (
    api_key_close,
    channel_set_status,
    channel_update,
    runtime_flag_set,
    tenant_set_status,
)
from channels_admin.statuses import AccessStatus, RouteStatus
from tests.factories.channels import a_channel, a_policy
from tests.flows.gateway import QUESTION, UPSTREAM_SECRET

EFFECTIVE_WITHIN_S = 1.0
NEVER_OUT = 10_000  # failures

FAILURES = {
    "status-500": "upstream_rejected",
    "status-429": "upstream_rejected",
    "refuse-keys": "upstream_rejected",
    "error-first-event": "upstream_error_event",
    "error-after-preamble": "upstream_error_event",
    "html-200": "bad_content_type",
    "done-only": "empty_response",
    "reset-before-headers": "upstream_reset",
    "not-json-first": "upstream_protocol_error",
}


async def _first_fails(gateway, model: str) -> None:
    """Two channels on one upstream: the first asks for the failing behaviour, the second for an echo."""
    await gateway.configure(runtime_flag_set, name="CHANNEL_RETRY_TIMES", value=0)
    await gateway.configure(
        channel_update,
        channel_id=gateway.channel.pk,
        priority=9,
        models=["m", "*"],
        model_mapping={"m": model},
    )
    await gateway.add_channel(gateway.simulator.base_url, name="second", model_mapping={"m": "echo-0"})


@pytest.mark.parametrize("model", FAILURES)
async def test_a_second_channel_answers(gateway, model):
    await _first_fails(gateway, model)
    heard = await gateway.chat("m", stream=True)
    assert (heard.status, heard.text, heard.is_done) == (200, QUESTION, True)
    assert heard.header("x-relay-attempts") == "2"
    row = await gateway.record(heard.request_id)
    first, second = row.attempts.all()
    assert (row.end_reason, first.end_reason, second.end_reason) == (
        "completed",
        FAILURES[model],
        "completed",
    )
    assert (first.number, second.number) == (1, 2)
    assert (first.channel_name, second.channel_name) == ("simulator", "second")
    assert (first.committed, second.committed) == (False, True)
    assert row.first_event_ms >= second.first_event_ms, "counted from the request's receipt"
    keys = [received.header("authorization") for received in gateway.simulator.requests]
    assert keys[0] == f"Bearer {UPSTREAM_SECRET}"
    assert keys[1] != keys[0], "each channel has its own credential"


@pytest.mark.parametrize(
    ("model", "status"), [("status-400", 400), ("status-422", 422), ("context-length", 400)]
)
async def test_the_requests_own_fault_is_not_tried_again(gateway, model, status):
    await _first_fails(gateway, model)
    heard = await gateway.chat("m", stream=True)
    assert heard.status == status
    assert heard.header("x-relay-attempts") == "1"
    assert len(gateway.simulator.requests) == 1


async def test_two_answers_are_never_glued_together(gateway):
    await _first_fails(gateway, "cut-after-3")
    heard = await gateway.chat("m", stream=True)
    assert heard.text.rstrip() == "one two three"
    assert heard.stream_error
    assert heard.header("x-relay-attempts") == "1"
    assert len(gateway.simulator.requests) == 1


async def test_a_picture_is_never_drawn_twice(gateway):
    await _first_fails(gateway, "status-503")
    body = b'{"model":"m","prompt":"a cat"}'
    heard = await gateway.ask(
        "POST", "/v1/images/generations", ("Content-Type", "application/json"), body=body
    )
    assert heard.status == 503
    assert len(gateway.simulator.requests) == 1


async def test_the_last_meaningful_status_is_told(gateway):
    await _first_fails(gateway, "status-503")
    await gateway.configure(_update_named, "second", model_mapping={"m": "refuse-keys"})
    heard = await gateway.chat("m", stream=True)
    assert (heard.status, heard.header("x-relay-attempts")) == (503, "2")


def _update_named(name: str, **fields):
    from channels_admin.models import Channel  # noqa: PLC0415  needs Django set up

    return channel_update(channel_id=Channel.objects.get(name=name).pk, **fields)


async def test_force_stream_through_the_sdk(gateway):
    policy = await gateway.run(a_policy, stream_policy="force_stream")
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy=policy)
    async with gateway.sdk() as sdk:
        answer = await sdk.chat.completions.create(
            model="parallel-tool-calls", messages=[{"role": "user", "content": QUESTION}]
        )
    [received] = gateway.simulator.requests
    assert received.json["stream"] is True
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in choice.message.tool_calls] == ["get_weather", "get_weather"]
    assert answer.usage.completion_tokens > 0


async def test_force_non_stream_through_the_sdk(gateway):
    policy = await gateway.run(a_policy, stream_policy="force_non_stream")
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy=policy)
    async with gateway.sdk() as sdk:
        stream = await sdk.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    [received] = gateway.simulator.requests
    assert not received.json.get("stream")
    assert "stream_options" not in received.json
    assert "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices) == QUESTION
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["stop"]
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [5]


async def _takes_effect(ask: Callable[[], Awaitable[bool]], change: Callable[[], Awaitable[object]]) -> float:
    """Seconds from a committed change until requests obey it. No restart, no help from the test."""
    assert not await ask()
    await change()
    began = time.monotonic()
    while not await ask():
        assert time.monotonic() - began < 3, "never took effect"
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def test_a_revoked_api_key(gateway):
    async def is_refused() -> bool:
        return (await gateway.chat("echo-0")).status == 401

    took = await _takes_effect(is_refused, lambda: gateway.run(api_key_close, api_key_id=gateway.api_key.pk))
    assert took < EFFECTIVE_WITHIN_S


async def test_a_closed_tenant(gateway):
    async def is_refused() -> bool:
        return (await gateway.chat("echo-0")).status == 401

    def close():
        return gateway.run(tenant_set_status, tenant_id=gateway.tenant.pk, status=AccessStatus.CLOSED)

    assert await _takes_effect(is_refused, close) < EFFECTIVE_WITHIN_S


async def test_a_disabled_channel(gateway):
    async def is_gone() -> bool:
        return (await gateway.chat("echo-0")).status in {404, 503}

    def disable():
        return gateway.run(channel_set_status, channel_id=gateway.channel.pk, status=RouteStatus.DISABLED)

    assert await _takes_effect(is_gone, disable) < EFFECTIVE_WITHIN_S


async def test_a_new_channel(gateway):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["other"])

    async def is_served() -> bool:
        return (await gateway.chat("echo-0")).status == 200

    def add():
        return gateway.run(a_channel, base_url=gateway.simulator.base_url, models=["echo-0"])

    assert await _takes_effect(is_served, add) < EFFECTIVE_WITHIN_S


async def test_a_changed_flag(gateway):
    """RETRY_TIMES 0: no further channel."""
    await gateway.configure(runtime_flag_set, name="HEALTH_FAILURE_THRESHOLD", value=NEVER_OUT)
    await _first_fails(gateway, "status-503")

    async def is_not_retried() -> bool:
        return (await gateway.chat("m", stream=True)).status == 503

    def change():
        return gateway.run(runtime_flag_set, name="RETRY_TIMES", value=0)

    assert await _takes_effect(is_not_retried, change) < EFFECTIVE_WITHIN_S


async def test_a_running_answer_keeps_its_channel(gateway):
    call = await gateway.begin_chat("echo-50", stream=True)
    async with call:
        await call.read_until(b"one")
        await gateway.configure(
            channel_set_status, channel_id=gateway.channel.pk, status=RouteStatus.DISABLED
        )
        heard = await call.rest()
    assert (heard.text, heard.is_done) == (QUESTION, True)
