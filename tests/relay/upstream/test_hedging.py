"""A backup beside an attempt that is late: who wins, what becomes of the loser, and when there is none."""

import asyncio
import random
from dataclasses import replace

import httpx
import pytest

from relay.core.end_reasons import EndReason
from relay.core.health import HealthEffect
from relay.core.types import Ceilings, DisconnectPolicy, ModelRoute, RelayFlags, StreamMode
from relay.upstream.aio_tasks import running_task_names
from tests.fakes.runtime import (
    DONE,
    ERROR,
    HELLO,
    NO_REPEATS,
    ROLE,
    SSE,
    STOP,
    USAGE,
    WHOLE,
    WORLD,
    a_channel,
    settle,
    with_policy,
)

ROUTE = ModelRoute(id=1, model="m", hedge_after_s=0.8)
TWO = (a_channel(number=1), a_channel(number=2))
THREE = (*TWO, a_channel(number=3))
FORCED = tuple(with_policy(one, stream_policy=StreamMode.FORCE_STREAM) for one in TWO)
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


class KeptVerdicts:
    def __init__(self) -> None:
        self.verdicts = []

    def is_cooling(self, channel_id, key_id):
        return False

    def note(self, verdict):
        self.verdicts.append(verdict)


class OneLease:
    """There is room for everything; what is held is known."""

    def __init__(self) -> None:
        self.held = set()
        self.asked = []

    async def take(self, request_id, number, candidates):
        await settle(3)
        self.asked.append([channel.id for channel, _ in candidates])
        self.held.add(number)
        return 0

    def give_back(self, request_id, number):
        self.held.remove(number)


async def late(runtime, *channels, route=ROUTE, **request):
    """A request whose first attempt was answered by nothing for the delay."""
    client = runtime.ask(*(channels or TWO), route=route, **request)
    await runtime.sent()
    await runtime.clock.advance(0.81)
    return client


def reasons(runtime) -> list[EndReason]:
    return [attempt.end_reason for attempt in runtime.recorder.one.attempts]


async def finish(runtime, number: int, *data: bytes) -> None:
    body = await runtime.streaming(*(data or (HELLO, STOP, USAGE, DONE)), number=number)
    body.end()


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


# Which answers win.


async def test_text_plain_wins_no_race_but_is_taken_when_it_is_alone(runtime):
    client = await late(runtime)
    first = (await runtime.sent()).headers(headers=TEXT)
    first.send(HELLO, STOP, DONE)
    first.end()
    await settle()
    assert not client.running.pump.bytes_out
    assert client.head is None
    (await runtime.sent(1)).headers(503, JSON).end()
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE
    assert reasons(runtime) == [EndReason.COMPLETED, EndReason.UPSTREAM_REJECTED]


async def test_text_plain_loses_to_an_event_stream_that_comes_later(runtime):
    client = await late(runtime)
    first = (await runtime.sent()).headers(headers=TEXT)
    first.send(WORLD, STOP, DONE)
    second = await runtime.sent(1)
    await runtime.clock.advance(20)
    body = second.headers()
    body.send(HELLO, STOP, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE
    assert first.is_closed
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]


async def test_of_two_text_plain_answers_the_first_goes_on(runtime):
    client = await late(runtime)
    second = (await runtime.sent(1)).headers(headers=TEXT)
    second.send(WORLD)
    await settle()
    first = (await runtime.sent()).headers(headers=TEXT)
    first.send(HELLO)
    await settle()
    second.send(STOP, DONE)
    second.end()
    await client.end()
    assert bytes(client.received) == WORLD + STOP + DONE
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]


async def test_a_preamble_under_another_name_is_not_released_in_a_race(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    await runtime.sent()
    await runtime.clock.advance(0.81)
    first = runtime.transport.exchanges[0].headers(headers=TEXT)
    first.send(ROLE)
    await runtime.clock.advance(2)
    assert client.head is None
    await finish(runtime, 1)
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE


async def test_an_error_in_a_200_wins_nothing(runtime):
    client = await late(runtime)
    (await runtime.streaming(ERROR, number=1)).end()
    await finish(runtime, 0)
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED, EndReason.UPSTREAM_ERROR_EVENT]


async def test_a_forced_stream_is_decided_by_its_first_event(runtime):
    client = await late(runtime, *FORCED, stream=False)
    first = (await runtime.sent()).headers()
    second = await runtime.streaming(HELLO, number=1)
    await settle()
    assert first.is_closed
    second.send(WORLD, STOP, USAGE, DONE)
    second.end()
    await client.end()
    assert b"Hello world" in client.received
    assert reasons(runtime) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]


async def test_a_forced_stream_that_breaks_after_it_won_is_followed_like_any_other(runtime):
    """Nothing of it was seen by the client, and the channel that was stopped for it may be tried again."""
    client = await late(runtime, *FORCED, stream=False)
    await runtime.sent(1)
    (await runtime.streaming(HELLO)).fail(httpx.ReadError("cut"))
    await settle()
    body = await runtime.streaming(HELLO, STOP, USAGE, DONE, number=2)
    body.end()
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 2, 2]
    assert reasons(runtime) == [EndReason.UPSTREAM_RESET, EndReason.HEDGE_LOST, EndReason.COMPLETED]


# Where there is no hedging.


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/images/generations", "opaque"),
        ("/v1/audio/speech", "opaque"),
        ("/v1/responses", "openai_responses"),
        ("/v1/systemone", "opaque"),
    ],
)
async def test_never_on_paths_that_make_artefacts_nor_where_nothing_is_known_of_the_stream(
    runtime, path, dialect
):
    client = runtime.ask(*TWO, route=ROUTE, path=path, dialect=dialect, input="hi", idempotency_key="k")
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


@pytest.mark.parametrize(
    "route",
    [replace(ROUTE, is_artefact=True), replace(ROUTE, hedge_after_s=0.0), None],
    ids=["artefact", "off", "no route"],
)
async def test_never_where_the_route_does_not_say_so(runtime, route):
    client = runtime.ask(*TWO, route=route)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


@pytest.mark.parametrize(
    "policy",
    [{"disconnect_policy": DisconnectPolicy.DRAIN}, {"stream_policy": StreamMode.FORCE_NON_STREAM}],
)
async def test_never_against_a_drained_or_whole_upstream(runtime, policy):
    changed = with_policy(TWO[0], **policy)
    client = runtime.ask(changed, TWO[1], route=ROUTE)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()
    runtime.recorder.outcomes.clear()
    client = runtime.ask(TWO[1], changed, route=ROUTE)
    await runtime.sent(1)
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 2
    await client.leave()


async def test_never_for_a_whole_answer(runtime):
    client = runtime.ask(*TWO, route=ROUTE, stream=False)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


# Ceilings.


@pytest.mark.parametrize("flags", [{"hedge_max_share": 0.0}, {"hedge_max_running": 0}])
async def test_at_a_ceiling_there_is_no_backup_and_the_primary_goes_on(runtime, flags):
    runtime.control.current = replace(NO_REPEATS, **flags)
    client = await late(runtime)
    await runtime.clock.advance(5)
    assert len(runtime.transport.exchanges) == 1
    await finish(runtime, 0)
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED]


async def test_so_many_backups_run_at_once_and_their_places_come_back(runtime):
    runtime.control.current = replace(NO_REPEATS, hedge_max_share=1.0, hedge_max_running=2)
    clients = [runtime.ask(*TWO, route=ROUTE) for _ in range(5)]
    await runtime.clock.advance(0.81)
    assert len(runtime.transport.exchanges) == 7
    assert runtime.engine.hedges.running == 2
    for client in clients:
        await client.leave()
    assert runtime.engine.hedges.running == 0
    assert sum(a.is_hedge for o in runtime.recorder.outcomes for a in o.attempts) == 2


# Ends from outside.


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


# Both at once.


@pytest.mark.parametrize("first_seed", range(0, 1000, 100))
async def test_both_valid_at_once_one_winner(runtime, first_seed):
    for seed in range(first_seed, first_seed + 100):
        runtime.recorder.outcomes.clear()
        runtime.transport.exchanges.clear()
        await _one_race(runtime, random.Random(seed))
        await runtime.clock.advance(61)  # past the window of the ceiling


async def _one_race(runtime, chance: random.Random) -> None:
    client = await late(runtime)
    await runtime.sent(1)
    steps = [_answering(runtime.transport.exchanges[n], n, chance) for n in (0, 1)]
    while steps:  # in any order, with any number of turns of the loop between
        one = chance.choice(steps)
        if next(one, None) is None:
            steps.remove(one)
        await settle(chance.choice([0, 0, 0, 1, 2, 3]))
    await client.end()
    assert sorted(reasons(runtime)) == [EndReason.COMPLETED, EndReason.HEDGE_LOST]
    winner = next(a for a in runtime.recorder.one.attempts if a.committed)
    assert bytes(client.received) == b"".join(_events(winner.number - 1))


def _events(number: int) -> list[bytes]:
    text = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"%d"},"finish_reason":null}]}\n\n'
    return [text % number, STOP, DONE]


def _answering(exchange, number: int, chance: random.Random):
    if exchange.answered.done():  # it has lost
        return
    body = exchange.headers(headers=SSE)
    yield 1
    events = _events(number)
    cut = chance.randrange(len(events) + 1)
    if cut:
        body.send(*events[:cut])
    yield 2
    if events[cut:]:
        body.send(*events[cut:])
    body.end()


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
