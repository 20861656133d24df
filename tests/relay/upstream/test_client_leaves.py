"""The client leaves, in every phase: the upstream is closed at once and no further attempt is made."""

import pytest

from relay.core.end_reasons import EndReason
from relay.core.stream_state import DRAINS_PER_PROCESS
from relay.core.types import DisconnectPolicy, StreamMode, StreamPolicy
from relay.upstream.aio_tasks import running_task_names
from tests.fakes.runtime import DONE, HELLO, ROLE, STOP, USAGE, WHOLE, WORLD, a_channel, a_request, settle

JSON = {"content-type": "application/json"}
DRAIN = StreamPolicy(disconnect_policy=DisconnectPolicy.DRAIN)


def assert_left(runtime, *, attempts: int = 1) -> None:
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.CLIENT_DISCONNECTED
    assert len(outcome.attempts) == attempts
    assert not running_task_names()


async def test_before_dispatch(runtime):
    client = runtime.ask()
    client.running.stop(EndReason.CLIENT_DISCONNECTED)  # before the task had its first turn
    await client.leave()
    assert not runtime.transport.exchanges
    assert_left(runtime, attempts=0)


async def test_while_dialling(runtime):
    client = runtime.ask()
    exchange = await runtime.exchange()
    await client.leave()
    assert exchange.was_cancelled
    assert_left(runtime)


@pytest.mark.parametrize("stream", [True, False])
async def test_in_the_step_in_which_the_answer_comes(runtime, stream):
    """The view is cancelled first and says `stop` a turn later: the answer was for nobody in between."""
    client = runtime.ask(stream=stream)
    exchange = await runtime.sent()
    body = exchange.headers(headers=None if stream else JSON)
    body.send(*([HELLO, STOP, DONE] if stream else [WHOLE]))
    body.end()
    client.task.cancel()
    await settle()
    await client.leave()
    assert_left(runtime)
    assert runtime.recorder.one.status == 499
    assert runtime.recorder.one.attempts[0].end_reason is EndReason.CLIENT_DISCONNECTED


async def test_while_waiting_for_headers(runtime):
    client = runtime.ask(a_channel(number=1), a_channel(number=2))
    exchange = await runtime.sent()
    await client.leave()
    assert exchange.was_cancelled
    assert len(runtime.transport.exchanges) == 1  # no further attempt
    assert_left(runtime)
    assert runtime.recorder.one.status == 499


async def test_before_the_first_event(runtime):
    client = runtime.ask()
    body = await runtime.streaming(b": ping\n\n")
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_while_the_preamble_is_held(runtime):
    client = runtime.ask()
    body = await runtime.streaming(ROLE)
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_mid_stream(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, WORLD)
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_while_the_queue_is_full(runtime):
    reader = runtime.engine.start(a_request(received_at=runtime.clock.now()), [a_channel()])
    body = await runtime.streaming(HELLO)
    await reader.head()
    for _ in range(100):
        body.send(WORLD)
        await settle(3)
    assert reader.pump.is_full
    reader.stop(EndReason.CLIENT_DISCONNECTED)
    reader.client_done(consumed=False)
    await reader.join()
    assert body.is_closed
    assert_left(runtime)


async def test_in_the_middle_of_a_whole_answer(runtime):
    client = runtime.ask(stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"choices":')
    await settle()
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_in_the_middle_of_an_aggregation(runtime):
    channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
    client = runtime.ask(channel, stream=False)
    body = await runtime.streaming(HELLO)
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_in_the_middle_of_a_binary_body(runtime):
    client = runtime.ask(path="/v1/audio/speech", dialect="opaque", stream=False)
    body = (await runtime.sent()).headers(headers={"content-type": "audio/mpeg"})
    body.send(b"\xff")
    await settle()
    await client.leave()
    assert body.is_closed
    assert_left(runtime)


async def test_during_failover(runtime):
    client = runtime.ask(a_channel(number=1), a_channel(number=2), a_channel(number=3))
    first = (await runtime.sent()).headers(503, JSON)
    first.end()
    second = await runtime.sent(1)
    await client.leave()
    assert second.was_cancelled
    assert len(runtime.transport.exchanges) == 2
    assert_left(runtime, attempts=2)


async def test_while_an_error_body_is_read(runtime):
    client = runtime.ask(a_channel(number=1), a_channel(number=2))
    body = (await runtime.sent()).headers(500, JSON)
    await settle()
    await client.leave()
    assert body.is_closed
    assert len(runtime.transport.exchanges) == 1
    assert_left(runtime)


async def test_after_an_early_commit(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(early_commit_s=5)))
    exchange = await runtime.sent()
    await runtime.clock.advance(6)
    await client.leave()
    assert exchange.was_cancelled
    assert_left(runtime)


async def test_behind_the_finish_the_usage_is_read_for_five_seconds_at_most(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP)
    await client.leave()
    for _ in range(6):  # comments do not prolong it
        body.send(b": ping\n\n")
        await runtime.clock.advance(0.9)
    assert body.is_closed
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL


async def test_drain_reads_on_for_the_exact_usage(runtime):
    client = runtime.ask(a_channel(policy=DRAIN))
    body = await runtime.streaming(HELLO)
    await client.leave()
    assert not body.is_closed
    body.send(WORLD, STOP, USAGE, DONE)
    body.end()
    await settle()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.CLIENT_DISCONNECTED
    assert outcome.attempts[0].end_reason is EndReason.CLIENT_DISCONNECTED
    assert outcome.usage.output == 2
    assert body.is_closed


async def test_drain_ends_after_thirty_seconds(runtime):
    client = runtime.ask(a_channel(policy=DRAIN))
    body = await runtime.streaming(HELLO)
    await client.leave()
    for _ in range(29):
        body.send(WORLD)
        await runtime.clock.advance(1)
    assert not body.is_closed
    await runtime.clock.advance(1.1)
    assert body.is_closed
    assert_left(runtime)


async def test_drain_ends_after_eight_mebibytes(runtime):
    client = runtime.ask(a_channel(policy=DRAIN))
    body = await runtime.streaming(HELLO)
    await client.leave()
    big = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 1_000_000 + b'"}}]}\n\n'
    for _ in range(10):
        body.send(big)
    await runtime.clock.advance(0.1)
    assert body.is_closed
    assert_left(runtime)


async def test_drains_are_counted_per_process(runtime):
    channel = a_channel(policy=DRAIN)
    clients = [runtime.ask(channel) for _ in range(DRAINS_PER_PROCESS + 1)]
    bodies = [await runtime.streaming(HELLO, number=number) for number in range(len(clients))]
    for client in clients:
        await client.leave()
    assert [body.is_closed for body in bodies] == [False] * DRAINS_PER_PROCESS + [True]
    await runtime.clock.advance(31)
    assert all(body.is_closed for body in bodies)
    again = runtime.ask(channel)  # the places were given back
    body = await runtime.streaming(HELLO, number=len(clients))
    await again.leave()
    assert not body.is_closed
    await runtime.clock.advance(31)


async def test_shutdown_ends_a_drain(runtime):
    client = runtime.ask(a_channel(policy=DRAIN))
    body = await runtime.streaming(HELLO)
    await client.leave()
    await runtime.engine.aclose()
    assert body.is_closed
    assert_left(runtime)


@pytest.mark.parametrize("reason", [EndReason.CLIENT_TOO_SLOW, EndReason.PING_FAILED])
async def test_only_a_client_that_left_is_drained(runtime, reason):
    client = runtime.ask(a_channel(policy=DRAIN))
    body = await runtime.streaming(HELLO)
    client.running.stop(reason)
    await settle()
    assert body.is_closed
    await client.end()
    assert runtime.recorder.one.end_reason is reason


async def test_a_drain_that_is_stopped_twice_takes_one_place(runtime, monkeypatch):
    monkeypatch.setattr("relay.upstream.engine.DRAINS_PER_PROCESS", 2)
    channel = a_channel(policy=DRAIN)
    for number in range(3):
        client = runtime.ask(channel)
        body = await runtime.streaming(HELLO, number=number)
        await client.leave()
        client.running.stop(EndReason.CLIENT_DISCONNECTED)
        await settle()
        assert not body.is_closed
        await runtime.clock.advance(31)
        assert body.is_closed
