"""A named test for each way an attempt can end, upstream's and client's and ours."""

import httpx
import orjson
import pytest

from relay.core.end_reasons import ENDINGS, EndReason
from relay.core.types import StreamMode, StreamPolicy
from tests.fakes.runtime import (
    DONE,
    ERROR,
    HELLO,
    ROLE,
    STOP,
    USAGE,
    WHOLE,
    WORLD,
    a_channel,
    a_request,
    settle,
)

JSON = {"content-type": "application/json"}


async def test_completed(runtime):
    client = runtime.ask()
    body = await runtime.streaming(ROLE, HELLO, WORLD, STOP, USAGE, DONE)
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    attempt = outcome.attempts[0]
    assert outcome.end_reason is attempt.end_reason is EndReason.COMPLETED
    assert bytes(client.received) == ROLE + HELLO + WORLD + STOP + DONE  # the usage was not asked for
    assert (outcome.usage.input, outcome.usage.output) == (7, 2)
    assert attempt.terminal_seen
    assert attempt.finish_reasons == ("stop",)
    assert attempt.events == 5
    assert attempt.upstream_connected
    assert attempt.stream_processed
    assert attempt.stream_finished
    assert attempt.usage_complete
    assert attempt.client_consumed


async def test_completed_whole(runtime):
    client = runtime.ask(stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert bytes(client.received) == WHOLE
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
    assert runtime.recorder.one.usage.output == 2


async def test_completed_without_terminal_at_clean_eof_adds_the_terminal(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL
    assert bytes(client.received) == HELLO + STOP + DONE
    assert not runtime.recorder.one.attempts[0].terminal_seen


@pytest.mark.parametrize("how", ["reset", "silence"])
async def test_completed_without_terminal_after_reset_or_silence_behind_the_finish(runtime, how):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP)
    if how == "reset":
        body.fail(httpx.ReadError("reset"))
    else:
        await runtime.clock.advance(4.9)
        assert not client.is_ended
        await runtime.clock.advance(0.2)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL
    assert bytes(client.received).endswith(DONE)


async def test_incomplete_tells_in_band_and_sends_no_terminal(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
    _assert_in_band_error(client)


async def test_upstream_error_event_after_the_commit_point(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.send(WORLD, ERROR)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    _assert_in_band_error(client, after=HELLO + WORLD)  # what came whole before the error is the client's


async def test_upstream_error_event_before_the_commit_point_is_a_refusal(runtime):
    client = runtime.ask()
    await runtime.streaming(ERROR)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    assert client.refusal.status >= 500
    assert not client.received


async def test_upstream_error_in_a_whole_200(runtime):
    client = runtime.ask(stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"error":{"message":"no","type":"server_error"}}')
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT


async def test_upstream_reset(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.fail(httpx.ReadError("reset"))
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
    _assert_in_band_error(client, after=HELLO)


@pytest.mark.parametrize("stream", [True, False])
async def test_upstream_reset_before_headers(runtime, stream):
    client = runtime.ask(stream=stream)
    (await runtime.sent()).refuse(httpx.ReadError("closed"))
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
    assert client.refusal.status == 502


async def test_upstream_protocol_error_of_broken_http(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.fail(httpx.RemoteProtocolError("bad chunk"))
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR


async def test_upstream_protocol_error_of_a_first_frame_that_is_not_json(runtime):
    client = runtime.ask()
    await runtime.streaming(b"data: {broken\n\n")
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR
    assert client.refusal is not None


async def test_upstream_protocol_error_of_a_body_that_is_not_json(runtime):
    client = runtime.ask(stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"choices": [')
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR


async def test_a_broken_frame_after_the_commit_point_is_a_soft_error_and_not_relayed(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, b"data: {broken\n\n", WORLD, STOP, DONE)
    body.end()
    await client.end()
    attempt = runtime.recorder.one.attempts[0]
    assert attempt.end_reason is EndReason.COMPLETED
    assert b"broken" not in client.received
    assert attempt.soft_error_count == 1
    assert attempt.soft_errors[0].offset > 0


async def test_connect_failed(runtime):
    client = runtime.ask()
    (await runtime.exchange()).refuse(httpx.ConnectError("refused"))
    await client.end()
    attempt = runtime.recorder.one.attempts[0]
    assert attempt.end_reason is EndReason.CONNECT_FAILED
    assert not attempt.upstream_connected
    assert client.refusal.status == 502


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_upstream_rejected(runtime, status):
    client = runtime.ask()
    body = (await runtime.sent()).headers(status, JSON)
    body.send(b'{"error":{"message":"because","type":"t","code":"c"}}')
    body.end()
    await client.end()
    attempt = runtime.recorder.one.attempts[0]
    assert attempt.end_reason is EndReason.UPSTREAM_REJECTED
    assert attempt.status == status
    assert client.refusal.status == (502 if status == 401 else status)


async def test_a_redirect_is_rejected_and_not_followed(runtime):
    client = runtime.ask()
    body = (await runtime.sent()).headers(302, {"location": "http://elsewhere.test/"})
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_REJECTED
    assert client.refusal.status == 502
    assert len(runtime.transport.exchanges) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_bad_content_type(runtime, stream):
    client = runtime.ask(stream=stream)
    (await runtime.sent()).headers(headers={"content-type": "text/html"})
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.BAD_CONTENT_TYPE


@pytest.mark.parametrize("frames", [[], [DONE], [b": ping\n\n"]])
async def test_empty_response_of_a_stream_without_an_event(runtime, frames):
    client = runtime.ask()
    body = await runtime.streaming(*frames)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.EMPTY_RESPONSE
    assert client.refusal.status == 502


async def test_empty_response_of_a_whole_answer(runtime):
    client = runtime.ask(stream=False)
    (await runtime.sent()).headers(headers=JSON).end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.EMPTY_RESPONSE


async def test_response_too_large_of_one_event(runtime):
    runtime.engine.max_event_bytes = 1000
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.send(b"data: " + b"x" * 2000)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.RESPONSE_TOO_LARGE
    assert len(runtime.transport.exchanges) == 1


async def test_response_too_large_is_never_replayed(runtime):
    runtime.engine.max_event_bytes = 1000
    client = runtime.ask(a_channel(number=1), a_channel(number=2))
    await runtime.streaming(b"data: " + b"x" * 2000)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.RESPONSE_TOO_LARGE
    assert len(runtime.transport.exchanges) == 1


@pytest.mark.parametrize("policy", [StreamMode.AS_ASKED, StreamMode.FORCE_STREAM])
async def test_response_too_large_of_a_whole_or_aggregated_answer(runtime, policy, monkeypatch):
    for name in ("relay.upstream.readings.whole", "relay.upstream.readings.common"):
        monkeypatch.setattr(f"{name}.MAX_WHOLE_BYTES", 5000)
    client = runtime.ask(a_channel(policy=StreamPolicy(stream_policy=policy)), stream=False)
    exchange = await runtime.sent()
    is_stream = policy is StreamMode.FORCE_STREAM
    body = exchange.headers(headers=None if is_stream else JSON)
    for _ in range(60):
        body.send(HELLO if is_stream else b" " * 100)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.RESPONSE_TOO_LARGE


async def test_client_disconnected(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    await client.leave()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.CLIENT_DISCONNECTED
    assert body.is_closed
    assert not outcome.attempts[0].client_consumed


async def test_a_terminal_seen_outranks_a_client_that_leaves_right_after_it(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    body.send(STOP, USAGE, DONE)  # and the body stays open: the end of the body is still awaited
    await settle()
    await client.leave()
    await runtime.clock.advance(0.3)
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.usage.output == 2


async def test_a_client_that_leaves_behind_the_finish_cancels_nothing(runtime):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP)
    await client.leave()
    assert not body.is_closed
    body.send(USAGE, DONE)
    body.end()
    await settle()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.usage.output == 2
    assert body.is_closed


async def test_client_too_slow(runtime):
    aborted = []
    reader = runtime.engine.start(a_request(received_at=runtime.clock.now()), [a_channel()])
    reader.on_write_timeout = lambda: aborted.append(runtime.clock.now())
    body = await runtime.streaming(HELLO)
    head = await reader.head()
    assert head.status == 200
    assert await anext(reader.pump) == HELLO  # and never asks again: the write is not accepted
    await runtime.clock.advance(59.9)
    assert not aborted
    await runtime.clock.advance(0.2)
    assert aborted
    assert body.is_closed
    reader.client_done(consumed=False)
    await reader.join()
    assert runtime.recorder.one.end_reason is EndReason.CLIENT_TOO_SLOW


@pytest.mark.parametrize(
    "reason",
    [
        EndReason.PING_FAILED,
        EndReason.HEDGE_LOST,
        EndReason.BALANCE_EXHAUSTED,
        EndReason.REVOKED,
        EndReason.STOPPED_BY_OPERATOR,
        EndReason.GATEWAY_SHUTDOWN,
        EndReason.ABANDONED,
    ],
)
async def test_stopped_from_outside(runtime, reason):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)
    client.running.stop(reason)
    client.running.stop(EndReason.GATEWAY_ERROR)  # the first reason wins
    await client.end()
    assert runtime.recorder.one.end_reason is reason
    assert body.is_closed
    if ENDINGS[reason].blame.value != "client":
        _assert_in_band_error(client, after=HELLO)


async def test_gateway_error(runtime, monkeypatch, caplog):
    secret = str(0xC0FFEE)  # the log shows source lines, never values

    def explode(*_args, **_kwargs):
        raise RuntimeError(secret)

    monkeypatch.setattr("relay.upstream.one_try.make_plan", explode)
    client = runtime.ask()
    await client.end()
    assert client.refusal.status == 500
    assert runtime.recorder.one.end_reason is EndReason.GATEWAY_ERROR
    assert "RuntimeError" in caplog.text
    assert secret not in caplog.text


async def test_gateway_error_in_mid_stream_keeps_the_attempt_and_tells_in_band(runtime, monkeypatch):
    client = runtime.ask()
    body = await runtime.streaming(HELLO)

    def explode(*_args):
        raise RuntimeError

    monkeypatch.setattr("relay.upstream.readings.events.EventReader.read", explode)
    body.send(WORLD)
    await client.end()
    [attempt] = runtime.recorder.one.attempts
    assert attempt.end_reason is runtime.recorder.one.end_reason is EndReason.GATEWAY_ERROR
    assert attempt.events == 1
    _assert_in_band_error(client, after=HELLO)


async def test_a_record_that_cannot_be_made_whole_is_still_a_record(runtime, monkeypatch):
    client = runtime.ask()

    def explode(*_args):
        raise RuntimeError

    monkeypatch.setattr("relay.upstream.record._attempt_outcome", explode)
    (await runtime.streaming(HELLO, STOP, DONE)).end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
    assert runtime.recorder.one.attempts == ()


async def test_every_end_reason_has_a_row_of_consequences():
    assert set(ENDINGS) == set(EndReason)


def _assert_in_band_error(client, *, after: bytes = b"") -> None:
    assert client.head.status == 200
    received = bytes(client.received)
    assert received.startswith(after)
    last = received.removesuffix(b"\n\n").rpartition(b"\n\n")[2]
    error = orjson.loads(last.removeprefix(b"data: "))["error"]
    assert set(error) >= {"message", "type", "code"}
    assert DONE not in received
