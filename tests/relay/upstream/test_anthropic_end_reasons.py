"""How attempts end that are asked in Anthropic's dialect, through the whole runtime."""

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from tests.fakes.runtime import settle
from tests.relay.core.dialects.anthropic_samples import (
    HELLO,
    OVERLOADED,
    PING,
    STOP,
    TEXT,
    closed,
    ended,
    events_of,
    said,
    started,
)

JSON = {"content-type": "application/json"}
ASKED = {"dialect": "anthropic", "path": "/v1/messages", "max_tokens": 99}
BEGUN = started() + TEXT + said("Hello")
WHOLE = (
    b'{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],'
    b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":2}}'
)


def told_in_band(client, after: bytes) -> dict:
    """The error, which must be the last event; there is no end mark behind it."""
    received = bytes(client.received)
    assert received.startswith(after)
    [event] = events_of(received.removeprefix(after))
    assert event.event == "error"
    body = orjson.loads(event.data)
    assert body["type"] == "error"
    assert body["request_id"].startswith("request-")
    return body["error"]


async def test_completed_byte_for_byte(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(*(HELLO[at : at + 50] for at in range(0, len(HELLO), 50)))
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    [attempt] = outcome.attempts
    assert bytes(client.received) == HELLO
    assert outcome.end_reason is EndReason.COMPLETED
    assert (outcome.usage.input, outcome.usage.output) == (25, 15)
    assert (attempt.terminal_seen, attempt.finish_reasons, attempt.usage_complete) == (
        True,
        ("end_turn",),
        True,
    )
    assert outcome.model_answered == "claude-opus-4-20250514"


async def test_completed_whole_byte_for_byte(runtime):
    client = runtime.ask(stream=False, **ASKED)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert bytes(client.received) == WHOLE
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
    assert runtime.recorder.one.usage.output == 2


@pytest.mark.parametrize("how", ["eof", "reset", "silence"])
async def test_completed_without_terminal(runtime, how):
    client = runtime.ask(**ASKED)
    said_all = BEGUN + closed() + ended()
    body = await runtime.streaming(said_all)
    if how == "eof":
        body.end()
    elif how == "reset":
        body.fail(httpx.ReadError("reset"))
    else:
        await runtime.clock.advance(5.1)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL
    assert bytes(client.received) == said_all + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


async def test_incomplete_at_eof_without_stop_reason(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(BEGUN)
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.INCOMPLETE
    assert told_in_band(client, BEGUN)["type"] == "api_error"
    assert (outcome.usage.input, outcome.usage.output) == (25, None), (
        "the start's output is no count of what came"
    )
    assert runtime.recorder.evidence[0].received == "Hello"


async def test_incomplete_of_a_preamble_alone_fails_before_the_commit_point(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(started(), PING, TEXT)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
    assert client.refusal.status == 502
    assert not client.received


async def test_error_event_after_text(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(BEGUN)
    body.send(said(" you"), OVERLOADED)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    error = told_in_band(client, BEGUN + said(" you"))
    assert error == {"type": "overloaded_error", "message": "Overloaded"}


@pytest.mark.parametrize("before", [b"", started(), started() + PING + TEXT])
async def test_error_event_before_anything_was_said_is_a_refusal(runtime, before):
    client = runtime.ask(**ASKED)
    await runtime.streaming(before + OVERLOADED)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    assert (client.refusal.status, client.refusal.kind) == (503, "overloaded_error")
    assert not client.received


@pytest.mark.parametrize("stream", [True, False])
async def test_json_error_in_a_200(runtime, stream):
    client = runtime.ask(stream=stream, **ASKED)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    assert client.refusal.status == 503


@pytest.mark.parametrize("stream", [True, False])
async def test_html_200(runtime, stream):
    client = runtime.ask(stream=stream, **ASKED)
    body = (await runtime.sent()).headers(headers={"content-type": "text/html"})
    body.send(b"<!doctype html><title>Hello</title>")
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.BAD_CONTENT_TYPE
    assert client.refusal.status == 502


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"chatcmpl-1","object":"chat.completion","choices":[{"message":{"content":"Hi"}}]}',
        b"{}",
        b"[]",
    ],
)
async def test_a_whole_answer_of_another_protocol(runtime, body):
    client = runtime.ask(stream=False, **ASKED)
    answer = (await runtime.sent()).headers(headers=JSON)
    answer.send(body)
    answer.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR


async def test_a_stream_of_another_protocol(runtime):
    client = runtime.ask(**ASKED)
    await runtime.streaming(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR
    assert not client.received


@pytest.mark.parametrize("frames", [b"", b": keepalive\n\n", STOP, b"data: [DONE]\n\n"])
async def test_empty_response(runtime, frames):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(frames)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.EMPTY_RESPONSE


async def test_upstream_reset_in_mid_stream(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(BEGUN)
    body.fail(httpx.ReadError("reset"))
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
    told_in_band(client, BEGUN)


async def test_idle_timeout_is_told_as_a_timeout(runtime):
    client = runtime.ask(**ASKED)
    await runtime.streaming(BEGUN)
    await runtime.clock.advance(301)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.IDLE_TIMEOUT
    assert bytes(client.received).count(b": keepalive\n\n") >= 19
    assert b'"type":"timeout_error"' in bytes(client.received)


async def test_a_broken_frame_in_mid_stream_is_not_relayed(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(BEGUN)
    body.send(b'event: content_block_delta\ndata: {"type":"content_bl\n\n', closed(), ended(), STOP)
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert [error.error_class for error in outcome.attempts[0].soft_errors] == ["not_json"]
    assert bytes(client.received) == BEGUN + closed() + ended() + STOP


async def test_a_client_that_leaves_behind_the_stop_reason_cancels_nothing(runtime):
    client = runtime.ask(**ASKED)
    body = await runtime.streaming(BEGUN + closed() + ended())
    await client.leave()
    assert not body.is_closed
    body.send(STOP)
    body.end()
    await settle()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED
    assert runtime.recorder.one.usage.output == 15
    assert body.is_closed
