"""Hedging on real sockets: the client sees one answer, and the loser's connection is closed at once."""

import asyncio

import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import ModelRoute
from tests.fakes.runtime import DONE, HELLO, STOP, WORLD
from tests.fakes.scripted_upstream import LAST_CHUNK, SSE_HEAD, Pause, Send, WaitFor, WaitLost, chunk

ROUTE = ModelRoute(id=1, model="m", hedge_after_s=0.05)
CLOSED_WITHIN_S = 0.1
SILENT = [WaitLost()]
HEADERS_ONLY = [Send(SSE_HEAD), WaitLost()]
COMMENTS_ONLY = [Send(SSE_HEAD + chunk(b": ping\n\n")), WaitLost()]


def answering(*events: bytes, after_s: float = 0.0):
    return [Pause(after_s), Send(SSE_HEAD + b"".join(map(chunk, events)) + LAST_CHUNK)]


def reasons(bench) -> list[EndReason]:
    return [attempt.end_reason for attempt in bench.recorder.one.attempts]


@pytest.mark.parametrize("slow", [SILENT, HEADERS_ONLY, COMMENTS_ONLY], ids=["silent", "headers", "comments"])
async def test_a_slow_primary_and_a_fast_backup(bench, slow):
    hold = asyncio.Event()
    await bench.channel(slow)
    await bench.channel([Send(SSE_HEAD + chunk(HELLO)), WaitFor(hold), *answering_rest()])
    client = bench.begin(route=ROUTE)
    async with asyncio.timeout(10):
        while not client.received:
            await asyncio.sleep(0.001)
    await bench.upstreams[0].connections[0].wait_lost(CLOSED_WITHIN_S)  # while the winner still answers
    assert not client.is_ended
    hold.set()
    await client.end()
    assert bytes(client.received) == HELLO + WORLD + STOP + DONE
    assert reasons(bench) == [EndReason.HEDGE_LOST, EndReason.COMPLETED]
    assert bench.received == [11, 21]


def answering_rest():
    return [Send(b"".join(map(chunk, (WORLD, STOP, DONE))) + LAST_CHUNK)]


async def test_a_primary_that_answers_first_after_all(bench):
    await bench.channel(answering(HELLO, STOP, DONE, after_s=0.3))
    await bench.channel(SILENT)
    client = await bench.ask(route=ROUTE)
    await bench.upstreams[1].connections[0].wait_lost(CLOSED_WITHIN_S)
    assert bytes(client.received) == HELLO + STOP + DONE
    assert reasons(bench) == [EndReason.COMPLETED, EndReason.HEDGE_LOST]


@pytest.mark.parametrize("phase", [SILENT, HEADERS_ONLY], ids=["before headers", "before the first event"])
async def test_the_client_leaves_during_the_race(bench, phase):
    await bench.channel(phase)
    await bench.channel(phase)
    client = bench.begin(route=ROUTE)
    await bench.upstreams[1].wait_requests(1)
    await client.leave()
    for upstream in bench.upstreams:
        await upstream.connections[0].wait_lost(CLOSED_WITHIN_S)
    assert reasons(bench) == [EndReason.CLIENT_DISCONNECTED] * 2


async def test_a_pictures_path_is_asked_once_however_slow_it_is(bench):
    await bench.channel(SILENT)
    await bench.channel(SILENT)
    client = bench.begin(path="/v1/images/generations", dialect="opaque", stream=False, route=ROUTE)
    await bench.upstreams[0].wait_requests(1)
    await asyncio.sleep(0.3)
    assert not bench.upstreams[1].connections
    await client.leave()


async def test_a_port_where_nobody_listens_is_left_for_another_channel_at_once(bench):
    """Without hedging the same key would be asked again first."""
    await bench.channel("refused")
    await bench.channel(answering(HELLO, STOP, DONE))
    client = await bench.ask(route=ModelRoute(id=1, model="m", hedge_after_s=30.0))
    assert bytes(client.received) == HELLO + STOP + DONE
    assert [a.channel_id for a in bench.recorder.one.attempts] == [1, 2]
