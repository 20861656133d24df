"""Hedging through the whole gateway: two channels of the simulator, a route, one answer, one charge."""

import pytest

from channels_admin.services import channel_update, model_route_set, runtime_flag_set
from tests.factories.money import IN_NANO, OUT_NANO
from tests.flows.gateway import QUESTION
from tests.flows.leftovers import eventually

HEDGE_AFTER_MS = 100


@pytest.fixture
async def slow_and_fast(gateway):
    """Channel `simulator` comes first and is slow to begin; `second` answers at once."""
    await gateway.configure(
        channel_update,
        channel_id=gateway.channel.pk,
        priority=9,
        models=["m"],
        model_mapping={"m": "slow-first-event-20"},
    )
    second = await gateway.add_channel(
        gateway.simulator.base_url, name="second", models=["m"], model_mapping={"m": "echo-0"}
    )
    await gateway.configure(model_route_set, model="m", hedge_after_ms=HEDGE_AFTER_MS)
    return second


async def test_the_backup_answers_and_is_what_is_charged(gateway, slow_and_fast):
    heard = await gateway.chat("m", stream=True)
    assert (heard.status, heard.text, heard.is_done) == (200, QUESTION, True)
    assert heard.header("x-relay-attempts") == "2"
    row = await gateway.record(heard.request_id)
    first, second = sorted(row.attempts.all(), key=lambda attempt: attempt.number)
    assert (first.channel_name, first.end_reason, first.is_hedge) == ("simulator", "hedge_lost", False)
    assert (second.channel_name, second.end_reason, second.is_hedge) == ("second", "completed", True)
    assert row.end_reason == "completed"
    assert second.committed
    assert not first.committed
    assert first.usage is None
    assert (row.usage.input, row.usage.output, row.usage.source) == (5, 5, "reported")
    assert row.cost_nano == 5 * IN_NANO + 5 * OUT_NANO
    assert await gateway.charges() == [-row.cost_nano]
    slow = gateway.simulator.requests[0]
    await eventually(lambda: slow.left_at is None, "the loser goes on")
    assert slow.left_at - gateway.simulator.requests[1].at < 1


async def test_no_backup_where_the_flag_allows_none(gateway, slow_and_fast):
    await gateway.configure(
        channel_update, channel_id=gateway.channel.pk, model_mapping={"m": "slow-first-event-1"}
    )
    await gateway.configure(runtime_flag_set, name="HEDGE_MAX_SHARE", value=0)
    heard = await gateway.chat("m", stream=True)
    assert heard.header("x-relay-attempts") == "1"
    assert [a.channel_name for a in (await gateway.record(heard.request_id)).attempts.all()] == ["simulator"]


async def test_a_clear_gateway_error_goes_to_the_other_channel_at_once(gateway, slow_and_fast):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, model_mapping={"m": "status-503"})
    heard = await gateway.chat("m", stream=True)
    assert heard.status == 200
    attempts = (await gateway.record(heard.request_id)).attempts.all()
    assert [attempt.channel_name for attempt in attempts] == ["simulator", "second"]


async def test_a_client_that_leaves_during_the_race_closes_both(gateway, slow_and_fast):
    await gateway.configure(
        channel_update, channel_id=slow_and_fast.pk, model_mapping={"m": "slow-first-event-20"}
    )
    call = await gateway.begin_chat("m", stream=True)
    async with call:
        await eventually(lambda: gateway.simulator.running_requests < 2, "no backup was started")
        call.reset()
        received = gateway.simulator.requests
        await eventually(lambda: [one for one in received if one.left_at is None], "an upstream goes on")
    took = [one.left_at - call.left_at for one in received]
    assert max(took) < 1, took
    await gateway.idle()
    assert len(received) == 2
