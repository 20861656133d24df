"""Every timer of an attempt, to the tenth of a second, on a clock that moves only when told."""

from dataclasses import replace

import pytest

from relay.core.end_reasons import EndReason
from relay.core.sse import KEEPALIVE
from relay.core.types import RelayFlags, StreamMode, StreamPolicy
from tests.fakes.runtime import (
    DONE,
    HELLO,
    ROLE,
    STOP,
    USAGE,
    WHOLE,
    WORLD,
    Client,
    a_channel,
    a_request,
    settle,
)

JSON = {"content-type": "application/json"}
COMMENT = b": ping\n\n"


async def expires(runtime, client, after_s: float, reason: EndReason) -> None:
    """Nothing happens until just before, and then the attempt ends for this reason."""
    await runtime.clock.advance(after_s - 0.1)
    assert not runtime.recorder.outcomes
    assert not client.is_ended
    await runtime.clock.advance(0.2)
    await client.end()
    assert runtime.recorder.one.end_reason is reason


async def test_connect_timeout(runtime):
    client = runtime.ask(a_channel(connect_timeout_s=4))
    exchange = await runtime.exchange()
    await expires(runtime, client, 4, EndReason.CONNECT_FAILED)
    assert exchange.was_cancelled
    assert client.refusal.status == 504


async def test_header_timeout_starts_when_the_request_was_sent(runtime):
    client = runtime.ask()
    exchange = await runtime.exchange()
    await runtime.clock.advance(8)  # dialling
    exchange.sent()
    await expires(runtime, client, 60, EndReason.HEADER_TIMEOUT)
    assert client.refusal.status == 504
    assert exchange.was_cancelled


async def test_header_timeout_of_the_stream_policy(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(header_timeout_s=7)))
    await runtime.sent()
    await expires(runtime, client, 7, EndReason.HEADER_TIMEOUT)


@pytest.mark.parametrize("flag_s", [300.0, 900.0])
async def test_header_timeout_of_images_is_a_flag_of_its_own(runtime, flag_s):
    runtime.control.current = replace(RelayFlags(), image_header_timeout_s=flag_s)
    client = runtime.ask(path="/v1/images/generations", dialect="opaque", stream=False)
    await runtime.sent()
    await expires(runtime, client, flag_s, EndReason.HEADER_TIMEOUT)


async def test_stalled_upload_has_the_write_limit(runtime):
    client = runtime.ask()
    (await runtime.exchange()).connect()
    await expires(runtime, client, 60, EndReason.HEADER_TIMEOUT)


async def test_non_stream_total(runtime):
    client = runtime.ask(a_channel(number=1), a_channel(number=2), stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    await runtime.clock.advance(250)
    body.send(b'{"choices":')
    await expires(runtime, client, 50, EndReason.NON_STREAM_TIMEOUT)
    assert client.refusal.status == 504
    assert len(runtime.transport.exchanges) == 1  # no further attempt


async def test_non_stream_total_of_the_channel(runtime):
    client = runtime.ask(a_channel(non_stream_timeout_s=900), stream=False)
    await runtime.sent()
    await expires(runtime, client, 900, EndReason.NON_STREAM_TIMEOUT)


async def test_first_byte_timeout_of_a_stuck_200(runtime):
    client = runtime.ask()
    await runtime.streaming()
    await expires(runtime, client, 30, EndReason.FIRST_BYTE_TIMEOUT)
    assert client.refusal.status == 504


async def test_every_byte_restarts_the_first_byte_timer(runtime):
    client = runtime.ask()
    body = await runtime.streaming()
    for _ in range(5):
        await runtime.clock.advance(29)
        body.send(COMMENT)
        await settle()
    await expires(runtime, client, 30, EndReason.FIRST_BYTE_TIMEOUT)


async def test_first_event_ceiling_is_not_restarted_by_comments(runtime):
    client = runtime.ask()
    body = await runtime.streaming()
    for _ in range(29):
        await runtime.clock.advance(20)
        body.send(COMMENT)
        await settle()
    await expires(runtime, client, 20, EndReason.FIRST_EVENT_TIMEOUT)  # 600 s in all
    assert client.refusal.status == 504


async def test_first_event_ceiling_can_be_off(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(first_event_timeout_s=0)))
    body = await runtime.streaming()
    for _ in range(50):
        await runtime.clock.advance(20)
        body.send(COMMENT)
        await settle()
    body.send(HELLO, STOP, DONE)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_idle_timeout(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    await runtime.clock.advance(200)
    body.send(COMMENT)
    await settle()
    await expires(runtime, client, 300, EndReason.IDLE_TIMEOUT)
    assert b'"error"' in client.received


async def test_idle_timeout_of_image_requests(runtime):
    client = runtime.ask(path="/v1/images/generations", dialect="opaque")
    await runtime.streaming(HELLO)
    await expires(runtime, client, 900, EndReason.IDLE_TIMEOUT)


async def test_event_idle_timeout_is_not_restarted_by_comments(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    for _ in range(8):
        await runtime.clock.advance(100)
        body.send(COMMENT)
        await settle()
    await expires(runtime, client, 100, EndReason.IDLE_TIMEOUT)  # 900 s in all


async def test_total_timeout(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(total_timeout_s=1000)))
    body = await runtime.streaming(HELLO)
    for _ in range(9):
        await runtime.clock.advance(100)
        body.send(WORLD)
        await settle()
    await expires(runtime, client, 100, EndReason.TOTAL_TIMEOUT)


async def test_keepalive_after_fifteen_silent_seconds_and_again(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    await runtime.clock.advance(14.9)
    assert bytes(client.received) == HELLO
    await runtime.clock.advance(0.2)
    assert bytes(client.received) == HELLO + KEEPALIVE
    await runtime.clock.advance(15)
    assert bytes(client.received) == HELLO + KEEPALIVE * 2
    body.send(WORLD)
    await runtime.clock.advance(14.9)
    assert bytes(client.received) == HELLO + KEEPALIVE * 2 + WORLD  # counted from the last byte written
    body.send(STOP, DONE)
    body.end()
    await client.end()
    assert runtime.recorder.one.attempts[0].keepalives == 2


async def test_keepalive_never_inside_an_event(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.send(WORLD[:40])
    await runtime.clock.advance(16)
    body.send(WORLD[40:], STOP, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == HELLO + KEEPALIVE + WORLD + STOP + DONE


async def test_no_keepalive_in_a_body_that_is_no_event_stream(runtime):
    client = runtime.ask(path="/v1/audio/speech", dialect="opaque", stream=False)
    body = (await runtime.sent()).headers(headers={"content-type": "audio/mpeg"})
    body.send(b"\xff\xfb")
    await runtime.clock.advance(100)
    body.end()
    await client.end()
    assert bytes(client.received) == b"\xff\xfb"


async def test_a_slow_client_is_never_the_upstreams_fault(runtime):
    """Upstream timers stand still while the reader waits for room in the queue."""
    runtime.control.current = RelayFlags()
    channel = a_channel(policy=StreamPolicy(idle_timeout_s=20))
    reader = runtime.engine.start(a_request(received_at=runtime.clock.now()), [channel])
    body = await runtime.streaming(HELLO)
    await reader.head()
    big = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 400_000 + b'"}}]}\n\n'
    for _ in range(6):
        body.send(big)
        await settle()
    assert reader.pump.is_full
    await anext(reader.pump)
    await runtime.clock.advance(50)  # the client takes its time over one write
    assert not runtime.recorder.outcomes
    body.send(STOP, DONE)
    body.end()
    async for _ in reader.pump:
        await settle()
    reader.client_done(consumed=True)
    await reader.join()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_usage_is_awaited_five_seconds_behind_the_finish(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP)
    await runtime.clock.advance(4)
    body.send(USAGE)
    await runtime.clock.advance(4)
    body.send(DONE)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
    assert runtime.recorder.one.usage.output == 2


async def test_preamble_is_held_for_a_second_and_then_released(runtime):
    client = runtime.ask()
    body = await runtime.streaming(ROLE)
    await runtime.clock.advance(0.9)
    assert client.head is None
    await runtime.clock.advance(0.2)
    assert bytes(client.received) == ROLE
    body.send(HELLO, STOP, DONE)
    body.end()
    await client.end()
    assert runtime.recorder.one.attempts[0].first_event_ms == 0  # the role is a valid event


async def test_preamble_hold_of_zero_forwards_at_once(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(preamble_hold_s=0)))
    body = await runtime.streaming(ROLE)
    assert bytes(client.received) == ROLE
    body.send(HELLO, STOP, DONE)
    body.end()
    await client.end()


async def test_early_commit_answers_while_attempts_go_on(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(early_commit_s=20)))
    await runtime.sent()
    await runtime.clock.advance(19.9)
    assert client.head is None
    await runtime.clock.advance(15.2)
    assert client.head.status == 200
    assert bytes(client.received) == KEEPALIVE
    body = (await runtime.exchange()).headers()
    body.send(HELLO, STOP, DONE)
    body.end()
    await client.end()
    assert bytes(client.received) == KEEPALIVE + HELLO + STOP + DONE
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_early_commit_tells_a_failure_in_band(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(early_commit_s=20)))
    await runtime.sent()
    await runtime.clock.advance(61)
    await client.end()
    assert client.head.status == 200
    assert b'"error"' in client.received
    assert DONE not in client.received
    assert runtime.recorder.one.end_reason is EndReason.HEADER_TIMEOUT


async def test_force_non_stream_commits_early_after_fifteen_seconds(runtime):
    channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM))
    client = runtime.ask(channel)
    exchange = await runtime.sent()
    await runtime.clock.advance(15.1)
    assert client.head.status == 200
    body = exchange.headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert b"Hello" in client.received
    assert client.received.endswith(DONE)


async def test_force_non_stream_has_the_non_stream_total_only(runtime):
    channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM, header_timeout_s=5))
    client = runtime.ask(channel)
    await runtime.sent()
    await runtime.clock.advance(299)
    assert not client.is_ended
    await runtime.clock.advance(2)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.NON_STREAM_TIMEOUT


@pytest.mark.parametrize(
    ("wait_s", "data", "reason"),
    [
        (60, None, EndReason.HEADER_TIMEOUT),
        (30, [], EndReason.FIRST_BYTE_TIMEOUT),
        (100, [HELLO], EndReason.IDLE_TIMEOUT),
    ],
)
async def test_force_stream_has_the_stream_timers(runtime, wait_s, data, reason):
    policy = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM, idle_timeout_s=100)
    client = runtime.ask(a_channel(policy=policy), stream=False)
    if data is None:
        await runtime.sent()
    else:
        await runtime.streaming(*data)
    await expires(runtime, client, wait_s, reason)


async def test_force_stream_has_the_clients_non_stream_total_too(runtime):
    policy = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)
    client = runtime.ask(a_channel(policy=policy, non_stream_timeout_s=40), stream=False)
    body = await runtime.streaming(HELLO)
    await runtime.clock.advance(20)
    body.send(WORLD)
    await settle()
    await expires(runtime, client, 20, EndReason.NON_STREAM_TIMEOUT)


async def test_the_body_may_stay_open_a_quarter_second_behind_the_terminal(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP, DONE)
    assert client.is_ended  # the client does not wait for it
    await runtime.clock.advance(0.3)
    assert body.is_closed
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_what_comes_behind_the_terminal_does_not_prolong_the_wait(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP, DONE)
    for _ in range(3):
        await runtime.clock.advance(0.1)
        body.send(COMMENT)
    await settle()
    assert body.is_closed
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_events_behind_the_finish_do_not_prolong_a_stream_beyond_its_total(runtime):
    client = runtime.ask(a_channel(policy=StreamPolicy(total_timeout_s=20)))
    body = await runtime.streaming(HELLO, STOP)
    for _ in range(6):
        await runtime.clock.advance(4)
        body.send(USAGE)
    await settle()
    assert body.is_closed
    await client.end()
    assert client.received.endswith(DONE)
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL


async def test_events_behind_the_finish_do_not_prolong_an_aggregation_beyond_the_non_stream_total(runtime):
    policy = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)
    client = runtime.ask(a_channel(policy=policy, non_stream_timeout_s=20), stream=False)
    body = await runtime.streaming(HELLO, STOP)
    for _ in range(6):
        await runtime.clock.advance(4)
        body.send(USAGE)
    await settle()
    assert body.is_closed
    await client.end()
    assert b"Hello" in client.received
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL


@pytest.mark.parametrize("headers", [None, JSON])
async def test_total_holds_where_no_event_comes_and_the_first_event_ceiling_is_off(runtime, headers):
    policy = StreamPolicy(first_event_timeout_s=0, total_timeout_s=100)
    client = runtime.ask(a_channel(policy=policy))
    body = (await runtime.sent()).headers(headers=headers)
    for _ in range(4):
        await runtime.clock.advance(20)
        body.send(COMMENT)
        await settle()
    await expires(runtime, client, 20, EndReason.TOTAL_TIMEOUT)


async def test_non_stream_total_of_an_answer_that_came_before_the_request_was_sent(runtime):
    client = runtime.ask(a_channel(non_stream_timeout_s=40), stream=False)
    exchange = await runtime.exchange()
    exchange.connect()
    await runtime.clock.advance(5)
    exchange.headers(headers=JSON)
    await settle()
    await expires(runtime, client, 40, EndReason.NON_STREAM_TIMEOUT)


async def test_early_commit_is_that_of_the_channel_that_begins(runtime):
    """The channel before it had no room."""
    channels = (a_channel(number=1), a_channel(number=2, policy=StreamPolicy(early_commit_s=20)))
    request = a_request(received_at=runtime.clock.now())
    client = Client(runtime.engine.start(request, channels, first=(channels[1], channels[1].keys[0])))
    await runtime.sent()
    await runtime.clock.advance(20.1)
    assert client.head.status == 200
    await client.leave()
