"""`degrade_to_non_stream`: when all else has failed, the first channel is asked once for a whole answer."""

from dataclasses import replace

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import ModelRoute, StreamMode
from tests.fakes.runtime import ERROR, HELLO, NO_REPEATS, WHOLE, a_channel, with_policy

ROUTE = ModelRoute(id=1, model="m", degrade_to_non_stream=True)
TWO = (a_channel(number=1), a_channel(number=2))
JSON = {"content-type": "application/json"}


async def fail(runtime, *numbers: int) -> None:
    for number in numbers:
        (await runtime.streaming(ERROR, number=number)).end()


def channels(runtime) -> list[int]:
    return [attempt.channel_id for attempt in runtime.recorder.one.attempts]


async def test_one_whole_request_to_the_first_channel_sent_as_a_stream(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    await fail(runtime, 0, 1)
    exchange = await runtime.sent(2)
    assert orjson.loads(exchange.request.content)["stream"] is False
    body = exchange.headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert b"Hello world" in client.received
    assert client.received.endswith(b"data: [DONE]\n\n")
    assert dict(client.head.headers)[b"content-type"].startswith(b"text/event-stream")
    outcome = runtime.recorder.one
    assert channels(runtime) == [1, 2, 1]
    assert outcome.attempts[2].decision.startswith("last resort")
    assert not outcome.attempts[2].stream_sent
    assert outcome.end_reason is EndReason.COMPLETED


async def test_it_is_tried_once(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    await fail(runtime, 0, 1)
    (await runtime.sent(2)).headers(503, JSON).end()
    await client.end()
    assert channels(runtime) == [1, 2, 1]
    assert client.refusal.status == 503
    assert "last resort failed" in runtime.recorder.one.attempts[2].decision


async def test_behind_retry_times(runtime):
    runtime.control.current = replace(NO_REPEATS, retry_times=0)
    client = runtime.ask(*TWO, route=ROUTE)
    await fail(runtime, 0)
    (await runtime.sent(1)).headers(503, JSON).end()
    await client.end()
    assert channels(runtime) == [1, 1]


async def test_with_another_key_where_the_first_was_refused(runtime):
    both = replace(TWO[0], keys=(*TWO[0].keys, replace(TWO[0].keys[0], id=9)))
    client = runtime.ask(both, route=ROUTE)
    (await runtime.sent()).headers(401, JSON).end()
    await fail(runtime, 1)
    (await runtime.sent(2)).headers(503, JSON).end()
    await client.end()
    used = [attempt.upstream_key_id for attempt in runtime.recorder.one.attempts]
    assert sorted(used[:2]) == [1, 9]
    assert used[2] == used[1]


async def test_both_racers_failed_before_it(runtime):
    client = runtime.ask(*TWO, route=replace(ROUTE, hedge_after_s=0.8))
    await runtime.sent()
    await runtime.clock.advance(0.81)
    for number in (1, 0):
        exchange = await runtime.exchange(number)
        exchange.headers().send(ERROR)
    body = (await runtime.sent(2)).headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert channels(runtime) == [1, 2, 1]
    assert b"Hello world" in client.received


@pytest.mark.parametrize(
    ("asked", "requests"),
    [
        ({"route": replace(ROUTE, degrade_to_non_stream=False)}, 2),
        ({"route": ROUTE, "stream": False}, 2),
        ({"route": replace(ROUTE, is_artefact=True)}, 1),
        ({"route": ROUTE, "path": "/v1/responses", "dialect": "openai_responses", "input": "hi"}, 1),
    ],
    ids=["off", "no stream asked", "artefact", "not replayable"],
)
async def test_where_there_is_none(runtime, asked, requests):
    client = runtime.ask(*TWO, **asked)
    for number in range(requests):
        (await runtime.sent(number)).headers(502, JSON).end()
    await client.end()
    assert len(runtime.transport.exchanges) == requests


async def test_not_where_the_request_itself_is_at_fault(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    (await runtime.sent()).headers(400, JSON).end()
    await client.end()
    assert channels(runtime) == [1]


async def test_not_where_the_upstream_is_asked_for_whole_answers_anyway(runtime):
    whole = tuple(with_policy(one, stream_policy=StreamMode.FORCE_NON_STREAM) for one in TWO)
    client = runtime.ask(*whole, route=ROUTE)
    for number in range(2):
        (await runtime.sent(number)).headers(503, JSON).end()
    await client.end()
    assert channels(runtime) == [1, 2]


async def test_not_once_something_was_sent(runtime):
    client = runtime.ask(*TWO, route=ROUTE)
    (await runtime.streaming(HELLO)).fail(httpx.ReadError("cut"))
    await client.end()
    assert channels(runtime) == [1]
