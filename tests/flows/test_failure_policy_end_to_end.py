"""The failure policy through the whole gateway: flags and routes as they are saved, keys, pictures, fallbacks."""

import pytest

from channels_admin.services import (
    channel_set_status,
    channel_update,
    model_route_set,
    runtime_flag_set,
    upstream_key_add,
)
from channels_admin.statuses import RouteStatus
from tests.flows.gateway import QUESTION

SECOND_KEY = "sk-upstream-second-0123456789"
PICTURE = b'{"model":"m","prompt":"a cat"}'
EVERY_TIER = (
    "IMAGES_FAILOVER_ENABLED",
    "IMAGES_FAILOVER_INCLUDE_AMBIGUOUS",
    "IMAGES_FAILOVER_INCLUDE_UNCERTAIN",
)


async def _behaves(gateway, behaviour: str) -> None:
    """Channel `simulator` serves `m` and nothing else, and behaves so."""
    await gateway.configure(
        channel_update,
        channel_id=gateway.channel.pk,
        priority=9,
        models=["m"],
        model_mapping={"m": behaviour},
    )


async def _flags(gateway, **values) -> None:
    for name, value in values.items():
        await gateway.configure(runtime_flag_set, name=name, value=value)


async def _draw(gateway, *headers):
    return await gateway.ask(
        "POST", "/v1/images/generations", ("Content-Type", "application/json"), *headers, body=PICTURE
    )


def _keys(gateway) -> list[str]:
    return [received.header("authorization") for received in gateway.simulator.requests]


@pytest.mark.parametrize(
    ("behaviour", "tier", "requests"),
    [
        ("status-429", 0, 1),
        ("status-429", 1, 3),
        ("status-500", 1, 1),
        ("status-500", 2, 3),
        ("reset-before-headers", 2, 1),
        ("reset-before-headers", 3, 3),
    ],
)
async def test_pictures_go_to_the_next_key_and_channel_as_far_as_the_saved_flags_allow(
    gateway, behaviour, tier, requests
):
    await _behaves(gateway, behaviour)
    await gateway.configure(upstream_key_add, channel_id=gateway.channel.pk, plain=SECOND_KEY)
    await gateway.add_channel(
        gateway.simulator.base_url, name="second", models=["m"], model_mapping={"m": behaviour}
    )
    await _flags(gateway, CHANNEL_RETRY_TIMES=0, **dict.fromkeys(EVERY_TIER[:tier], True))
    heard = await _draw(gateway, ("Idempotency-Key", "k"))
    assert len(gateway.simulator.requests) == requests
    assert len(set(_keys(gateway))) == requests, "each key and channel once"
    assert heard.header("x-relay-attempts") == str(requests)
    row = await gateway.record(heard.request_id)
    attempts = list(row.attempts.all())
    assert [attempt.channel_name for attempt in attempts] == ["simulator", "simulator", "second"][:requests]
    flagged = [attempt.possible_duplicate_charge for attempt in attempts]
    assert flagged == [False] + [tier > 1] * (requests - 1)
    assert row.possible_duplicates == sum(flagged)
    assert all(attempt.decision for attempt in attempts)


async def test_the_same_key_is_tried_again_after_a_rest(gateway):
    await _behaves(gateway, "status-500")
    heard = await gateway.chat("m", stream=True)
    assert heard.header("x-relay-attempts") == "2"
    first, second = (await gateway.record(heard.request_id)).attempts.all()
    assert first.upstream_key_id == second.upstream_key_id
    rested_s = second.started_at.timestamp() - first.started_at.timestamp() - first.duration_ms / 1000
    assert 0.19 < rested_s < 2.5
    assert second.decision.startswith("same key again")


async def test_a_key_that_was_refused_with_429_rests_and_the_client_is_told_when_to_come_back(gateway):
    await _behaves(gateway, "status-429")
    first = await gateway.chat("m")
    second = await gateway.chat("m")
    assert (first.status, second.status) == (429, 503)
    assert second.header("retry-after") == "30"
    assert len(gateway.simulator.requests) == 1


async def test_a_fallback_model_answers_and_is_named(gateway):
    await _behaves(gateway, "status-500")
    await gateway.add_channel(
        gateway.simulator.base_url, name="other", models=["n"], model_mapping={"n": "echo-0"}
    )
    await gateway.configure(model_route_set, model="m", fallback_models=["n"])
    await _flags(gateway, CHANNEL_RETRY_TIMES=0)
    heard = await gateway.chat("m", stream=True)
    assert (heard.status, heard.text, heard.is_done) == (200, QUESTION, True)
    assert heard.header("x-relay-model") == "n"
    assert heard.header("x-relay-attempts") == "2"
    alone = await gateway.chat("n")
    assert alone.header("x-relay-model") is None


async def test_a_fallback_model_serves_while_every_channel_of_the_asked_one_is_out(gateway):
    await _behaves(gateway, "echo-0")
    await gateway.add_channel(
        gateway.simulator.base_url, name="other", models=["n"], model_mapping={"n": "echo-0"}
    )
    await gateway.configure(model_route_set, model="m", fallback_models=["n"])
    await gateway.configure(channel_set_status, channel_id=gateway.channel.pk, status=RouteStatus.DISABLED)
    heard = await gateway.chat("m")
    assert (heard.status, heard.header("x-relay-model")) == (200, "n")


async def test_a_fallback_model_serves_while_every_channel_of_the_asked_one_is_full(gateway):
    await _behaves(gateway, "interval-0.05")
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, max_concurrent_requests=1)
    await gateway.add_channel(
        gateway.simulator.base_url, name="other", models=["n"], model_mapping={"n": "echo-0"}
    )
    await gateway.configure(model_route_set, model="m", fallback_models=["n"])
    async with await gateway.begin_chat("m", stream=True) as call:
        await call.read_until(b"data:")
        heard = await gateway.chat("m")
        await call.rest()
    assert (heard.status, heard.header("x-relay-model")) == (200, "n")


async def test_a_model_that_makes_pictures_is_not_replayed_whatever_its_path(gateway):
    await _behaves(gateway, "status-503")
    await gateway.add_channel(gateway.simulator.base_url, name="second", model_mapping={"m": "echo-0"})
    await gateway.configure(model_route_set, model="m", is_artefact=True)
    heard = await gateway.chat("m", ("Idempotency-Key", "k"))
    assert (heard.status, heard.header("x-relay-attempts")) == (503, "1")
    await _flags(gateway, IMAGES_FAILOVER_ENABLED=True)
    heard = await gateway.chat("m", ("Idempotency-Key", "k"))
    assert (heard.status, heard.header("x-relay-attempts")) == (200, "2")
