"""A backup beside an attempt that is late: who wins, and what becomes of the loser."""

from dataclasses import replace

import httpx
import pytest

from relay.core.end_reasons import EndReason
from relay.core.health import HealthEffect
from relay.core.types import RelayFlags, StreamMode
from relay.upstream.aio_tasks import running_task_names
from tests.fakes.runtime import (
    DONE,
    HELLO,
    NO_REPEATS,
    ROLE,
    STOP,
    USAGE,
    WHOLE,
    WORLD,
    settle,
    with_policy,
)
from tests.relay.upstream.races import JSON, ROUTE, THREE, TWO, KeptVerdicts, finish, late, reasons


async def test_a_slow_primary_loses_to_a_fast_backup(runtime):
    health = runtime.engine.health = KeptVerdicts()
    client = await late(runtime)
    first = runtime.transport.exchanges[0].headers()
    await settle()
    assert [e.request.url.host for e in runtime.transport.exchanges] == ["upstream.test"] * 2
    await finish(runtime, 1)
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE
    assert first.is_closed
    outcome = runtime.recorder.one
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]
    assert [(a.number, a.channel_id, a.is_hedge, a.committed) for a in outcome.attempts] == [
        (1, 1, False, False), (2, 2, True, True),
    ]  # fmt: skip
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.usage.output == 2
    assert {v.channel_id: v.effect for v in health.verdicts} == {
        1: HealthEffect.NEUTRAL, 2: HealthEffect.SUCCESS,
    }  # fmt: skip
    assert len(health.verdicts) == 2
    assert "attempt 2" in outcome.attempts[0].decision
    assert outcome.attempts[1].decision.startswith("backup")


async def test_the_loser_is_closed_in_the_step_in_which_the_winner_answers(runtime):
    client = await late(runtime)
    first = runtime.transport.exchanges[0].headers()
    second = await runtime.streaming(number=1)
    assert not first.is_closed
    second.send(HELLO)
    await settle()  # no time has passed
    assert first.is_closed
    assert not second.is_closed
    assert len(running_task_names()) == 2
    second.send(STOP, DONE)
    second.end()
    await client.end()


async def test_a_primary_that_answers_after_all_stops_the_backup_and_is_the_record_of_the_request(runtime):
    client = await late(runtime)
    backup = await runtime.streaming(number=1)
    await finish(runtime, 0, HELLO, WORLD, STOP, USAGE, DONE)
    await client.end()
    assert backup.is_closed
    assert bytes(client.received) == HELLO + WORLD + STOP + DONE
    assert reasons(runtime) == [EndReason.COMPLETED, EndReason.HEDGE_LOST]
    outcome = runtime.recorder.one
    assert (outcome.end_reason, outcome.usage.output) == (EndReason.COMPLETED, 2)
    assert [a.number for a in outcome.attempts] == [1, 2]
    assert outcome.attempts[1].usage is None


@pytest.mark.parametrize("phase", ["dialling", "headers awaited", "headers seen"])
async def test_a_loser_in_any_phase(runtime, phase):
    client = await late(runtime)
    backup = await runtime.exchange(1)
    if phase != "dialling":
        backup.sent()
    if phase == "headers seen":
        backup.headers()
    await settle()
    await finish(runtime, 0)
    await client.end()
    assert backup.was_cancelled or backup.body.is_closed
    assert reasons(runtime) == [EndReason.COMPLETED, EndReason.HEDGE_LOST]


async def test_no_backup_before_the_delay_and_none_when_an_event_came_in_time(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    await runtime.sent()
    await runtime.clock.advance(0.79)
    assert len(runtime.transport.exchanges) == 1
    body = await runtime.streaming(ROLE)  # valid, though it is held back
    await runtime.clock.advance(5)
    assert len(runtime.transport.exchanges) == 1
    body.send(STOP, DONE)
    body.end()
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED]


async def test_comments_are_no_events(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    await runtime.streaming(b": ping\n\n")
    await runtime.clock.advance(0.81)
    await finish(runtime, 1)
    await client.end()
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]


@pytest.mark.parametrize("status", [502, 503, 504, 522, 529, 530])
async def test_a_clear_gateway_error_goes_to_another_channel_without_a_pause(runtime, status):
    runtime.control.current = RelayFlags()  # which repeats with the same key
    client = runtime.ask(*TWO, route=ROUTE)
    (await runtime.sent()).headers(status, JSON).end()
    await finish(runtime, 1)
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 2]


async def test_a_refused_connection_goes_to_another_channel_without_a_pause(runtime):
    runtime.control.current = RelayFlags()
    client = runtime.ask(*TWO, route=ROUTE)
    (await runtime.exchange()).refuse(httpx.ConnectError("refused"))
    await finish(runtime, 1)
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 2]


async def test_any_other_server_error_repeats_with_the_same_key(runtime):
    runtime.control.current = RelayFlags()
    client = runtime.ask(*TWO, route=ROUTE)
    (await runtime.sent()).headers(500, JSON).end()
    await runtime.clock.advance(1.01)
    await finish(runtime, 1)
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 1]


async def test_a_backup_that_fails_leaves_the_primary_alone(runtime):
    client = await late(runtime)
    (await runtime.sent(1)).headers(400, JSON).end()
    await settle()
    await finish(runtime, 0)
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED, EndReason.UPSTREAM_REJECTED]
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_a_primary_that_fails_leaves_the_backup_alone(runtime):
    client = await late(runtime)
    (await runtime.sent()).headers(503, JSON).end()
    await settle()
    await finish(runtime, 1)
    await client.end()
    assert reasons(runtime) == [EndReason.UPSTREAM_REJECTED, EndReason.COMPLETED]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_when_both_have_failed_the_walk_goes_on_with_a_channel_not_tried(runtime, order):
    client = await late(runtime, *THREE)
    for number in order:
        (await runtime.sent(number)).headers(503, JSON).end()
        await settle()
    await finish(runtime, 2)
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 2, 3]
    assert [a.number for a in runtime.recorder.one.attempts] == [1, 2, 3]


async def test_a_backup_counts_as_a_further_channel(runtime):
    runtime.control.current = replace(NO_REPEATS, retry_times=1)
    client = await late(runtime, *THREE)
    for number in (0, 1):
        (await runtime.sent(number)).headers(503, JSON).end()
    await client.end()
    assert len(runtime.transport.exchanges) == 2
    assert client.refusal.status == 503


async def test_without_further_channels_there_is_no_backup(runtime):
    runtime.control.current = replace(NO_REPEATS, retry_times=0)
    client = await late(runtime)
    assert len(runtime.transport.exchanges) == 1
    assert runtime.engine.hedges.running == 0
    await finish(runtime, 0)
    await client.end()


async def test_what_the_primary_says_of_the_request_itself_is_told(runtime):
    """The backup had its chance; that it failed too says nothing better."""
    client = await late(runtime, *THREE)
    (await runtime.sent()).headers(400, JSON).end()
    await settle()
    (await runtime.sent(1)).headers(503, JSON).end()
    await client.end()
    assert client.refusal.status == 400
    assert len(runtime.transport.exchanges) == 2


async def test_one_backup_a_request(runtime):
    client = await late(runtime, *THREE)
    await runtime.sent(1)
    await runtime.clock.advance(5)
    assert len(runtime.transport.exchanges) == 2
    for number in (0, 1):
        (await runtime.exchange(number)).headers(503, JSON).end()
    await runtime.sent(2)
    await runtime.clock.advance(5)
    assert len(runtime.transport.exchanges) == 3
    await finish_headers(runtime, 2)
    await client.end()


async def finish_headers(runtime, number: int) -> None:
    body = runtime.transport.exchanges[number].headers()
    body.send(HELLO, STOP, DONE)
    body.end()


async def test_once_decided_there_is_no_switching(runtime):
    client = await late(runtime, *THREE)
    second = await runtime.streaming(HELLO, number=1)
    second.fail(httpx.ReadError("cut"))
    await client.end()
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.UPSTREAM_RESET]
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
    assert len(runtime.transport.exchanges) == 2
    assert client.received.startswith(HELLO)
    assert b"[DONE]" not in client.received


async def test_an_upstreams_own_tool_ends_the_attempts(runtime):
    """`server_tool_use` was seen, then the body broke: asking again would run the tool again."""
    forced = tuple(
        with_policy(replace(one, kind="anthropic"), stream_policy=StreamMode.FORCE_STREAM) for one in TWO
    )
    client = runtime.ask(*forced, stream=False, path="/v1/messages", dialect="anthropic", max_tokens=10)
    body = await runtime.streaming(
        b'event: message_start\ndata: {"type":"message_start","message":{"model":"m","usage":{}}}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
        b'{"type":"server_tool_use","id":"t","name":"web_search","input":{}}}\n\n',
    )
    body.fail(httpx.ReadError("cut"))
    await client.end()
    assert len(runtime.transport.exchanges) == 1
    assert client.refusal.status == 502
    assert "tool" in runtime.recorder.one.attempts[0].decision
    assert WHOLE not in client.received
