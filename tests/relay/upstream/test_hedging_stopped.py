"""A race that is ended from outside, places that come back, and what is known of it meanwhile."""

import asyncio
from dataclasses import replace

import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import Ceilings
from relay.upstream.aio_tasks import running_task_names
from tests.fakes.runtime import (
    DONE,
    HELLO,
    NO_REPEATS,
    STOP,
    settle,
    with_policy,
)
from tests.relay.upstream.races import (
    ROUTE,
    TWO,
    OneLease,
    late,
    reasons,
)


@pytest.mark.parametrize("phase", ["dialling", "headers seen"])
async def test_the_client_leaves_during_the_race(runtime, phase):
    leases = runtime.engine.leases = OneLease()
    limited = tuple(replace(one, ceilings=Ceilings(requests=1)) for one in TWO)
    client = await late(runtime, *limited)
    if phase == "headers seen":
        runtime.transport.exchanges[0].headers()
        await runtime.streaming(number=1)
    assert leases.held == {1, 2}
    await client.leave()
    assert all(e.was_cancelled or e.body.is_closed for e in runtime.transport.exchanges)
    assert reasons(runtime) == [EndReason.CLIENT_DISCONNECTED] * 2
    assert runtime.recorder.one.end_reason is EndReason.CLIENT_DISCONNECTED
    assert not leases.held
    assert len(runtime.transport.exchanges) == 2


async def test_the_client_leaves_while_the_backup_waits_for_its_place(runtime):
    leases = runtime.engine.leases = OneLease()
    client = runtime.ask(TWO[0], replace(TWO[1], ceilings=Ceilings(requests=1)), route=ROUTE)
    await runtime.sent()
    runtime.engine.leases.take, go = _held_up(leases)
    await runtime.clock.advance(0.81)
    client.running.stop(EndReason.CLIENT_DISCONNECTED)
    go()
    await client.leave()
    assert not leases.held
    assert reasons(runtime) == [EndReason.CLIENT_DISCONNECTED]
    assert runtime.engine.hedges.running == 0


def _held_up(leases):
    gate = asyncio.get_running_loop().create_future()
    take = leases.take

    async def slow(*asked):
        await gate
        return await take(*asked)

    return slow, lambda: gate.set_result(None)


async def test_the_primary_answers_while_the_backup_waits_for_its_place(runtime):
    leases = runtime.engine.leases = OneLease()
    client = runtime.ask(TWO[0], replace(TWO[1], ceilings=Ceilings(requests=1)), route=ROUTE)
    await runtime.sent()
    leases.take, go = _held_up(leases)
    await runtime.clock.advance(0.81)
    body = runtime.transport.exchanges[0].headers()
    body.send(HELLO)
    await settle()
    go()
    await settle()
    assert len(runtime.transport.exchanges) == 1
    assert not leases.held
    body.send(STOP, DONE)
    body.end()
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED]


async def test_the_place_of_a_loser_comes_back_while_the_winner_still_answers(runtime):
    leases = runtime.engine.leases = OneLease()
    client = await late(runtime, *(replace(one, ceilings=Ceilings(requests=1)) for one in TWO))
    body = await runtime.streaming(HELLO, number=1)
    assert leases.held == {2}
    body.send(STOP, DONE)
    body.end()
    await client.end()
    assert not leases.held


@pytest.mark.parametrize("reason", [EndReason.GATEWAY_SHUTDOWN, EndReason.STOPPED_BY_OPERATOR])
async def test_both_are_stopped_and_the_client_is_told(runtime, reason):
    client = await late(runtime)
    await runtime.sent(1)
    client.running.stop(reason)
    await client.end()
    assert client.refusal.status == 503
    assert reasons(runtime) == [reason, reason]


async def test_the_engine_is_closed_during_a_race(runtime):
    client = await late(runtime)
    await runtime.sent(1)
    await runtime.engine.aclose()
    assert not running_task_names()
    await client.end()
    assert reasons(runtime) == [EndReason.GATEWAY_SHUTDOWN] * 2


async def test_an_early_commit_during_the_race_changes_nothing(runtime):
    early = tuple(with_policy(one, early_commit_s=2.0) for one in TWO)
    client = await late(runtime, *early)
    await runtime.sent(1)
    await runtime.clock.advance(3)
    assert client.head.status == 200
    runtime.transport.exchanges[1].headers().send(HELLO, STOP, DONE)
    await runtime.clock.advance(1)
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]


async def test_timers_of_both_attempts_run(runtime):
    runtime.control.current = replace(NO_REPEATS, header_timeout_s=10)
    client = await late(runtime)
    await runtime.sent(1)
    await runtime.clock.advance(30)
    await client.end()
    assert reasons(runtime) == [EndReason.HEADER_TIMEOUT] * 2
    assert client.refusal.status == 504


async def test_progress_and_draft_know_both(runtime):
    client = await late(runtime)
    runtime.transport.exchanges[0].headers().send(b": ping\n\n")
    second = await runtime.streaming(b": pong\n\n", number=1)
    running = client.running
    assert running.progress == (2, 0, 16)
    assert [a.number for a in running.draft().attempts] == [1, 2]
    second.send(HELLO)
    await settle()
    draft = running.draft()
    assert [a.end_reason for a in draft.attempts] == [EndReason.HEDGE_LOST, EndReason.ABANDONED]
    assert draft.model_answered == "m"
    assert running.received_size == len("Hello")
    await client.leave()
