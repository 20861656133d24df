"""Which answers win a race, and that there is always one winner."""

import random

import httpx
import pytest

from relay.core.end_reasons import EndReason
from tests.fakes.runtime import (
    DONE,
    ERROR,
    HELLO,
    ROLE,
    SSE,
    STOP,
    USAGE,
    WORLD,
    settle,
)
from tests.relay.upstream.races import FORCED, JSON, ROUTE, TEXT, TWO, finish, late, reasons


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


@pytest.mark.parametrize("first_seed", range(0, 1000, 100))
async def test_both_valid_at_once_one_winner(runtime, first_seed):
    winners = set()
    for seed in range(first_seed, first_seed + 100):
        runtime.recorder.outcomes.clear()
        runtime.transport.exchanges.clear()
        winners.add(await _one_race(runtime, random.Random(seed)))
        await runtime.clock.advance(61)  # past the window of the ceiling
    assert winners == {1, 2}


async def _one_race(runtime, chance: random.Random) -> int:
    """Which attempt won."""
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
    assert not runtime.transport.open_bodies
    return winner.number


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
