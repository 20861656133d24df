"""How attempts end that are asked in Gemini's dialect, through the whole runtime."""

import dataclasses
import json

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import StreamMode, StreamPolicy
from tests.fakes.runtime import Client, a_channel, a_request, settle, with_policy
from tests.relay.core.dialects.gemini_samples import (
    GENERATE,
    HELLO,
    OVERLOADED,
    QUESTION,
    STREAM,
    STREAMS,
    candidate,
    chunk,
    ended,
    events_of,
    frame,
    said,
    usage,
)

JSON = {"content-type": "application/json; charset=UTF-8"}
BEGUN = said("Hello")
WHOLE = orjson.dumps(
    {
        "candidates": [candidate({"text": "Hi"}, finish="STOP")],
        "usageMetadata": usage(7, 2),
        "modelVersion": "gemini-2.5-flash-001",
    },
    option=orjson.OPT_INDENT_2,
)


def asked(runtime, *, stream=True, array=False, policy=None, channel=None, body=None):
    dialect = "gemini_array" if stream and array else "gemini"
    request = a_request(
        dialect=dialect,
        path=STREAM if stream else GENERATE,
        query="alt=sse" if stream and not array else "",
        body=body or orjson.dumps(QUESTION),
        received_at=runtime.clock.now(),
    )
    to = dataclasses.replace(channel or a_channel(), kind="gemini")
    if policy is not None:
        to = dataclasses.replace(to, policy=policy)
    return Client(runtime.engine.start(request, (to,)))


def told_in_band(client, after: bytes) -> dict:
    """The error, which must be the last event."""
    received = bytes(client.received)
    assert received.startswith(after)
    [event] = events_of(received.removeprefix(after))
    body = orjson.loads(event.data)
    assert list(body) == ["error"]
    return body["error"]


@pytest.mark.parametrize("name", STREAMS)
async def test_completed_byte_for_byte_at_the_end_of_the_body(runtime, name):
    stream = STREAMS[name]
    client = asked(runtime)
    body = await runtime.streaming(*(stream[at : at + 50] for at in range(0, len(stream), 50)))
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    [attempt] = outcome.attempts
    assert bytes(client.received) == stream
    assert outcome.end_reason is EndReason.COMPLETED
    assert (attempt.terminal_seen, attempt.finish_reasons) == (True, ("STOP",))
    assert attempt.usage_complete
    assert outcome.model_answered == "gemini-2.5-flash"


async def test_completed_whole_byte_for_byte(runtime):
    client = asked(runtime, stream=False)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    assert bytes(client.received) == WHOLE
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert (outcome.usage.input, outcome.usage.output) == (7, 2)
    assert outcome.model_answered == "gemini-2.5-flash-001"


async def test_a_finish_ends_nothing_however_long_the_upstream_is_silent_behind_it(runtime):
    """Google finishes a round with its tools and goes on when the tool has run (0xPlaygrounds/rig#2328)."""
    client = asked(runtime)
    body = await runtime.streaming(BEGUN + ended(candidates=2))
    await runtime.clock.advance(60)
    assert not client.is_ended
    body.send(said(" again"), ended(candidates=4))
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.usage.output == 4
    assert bytes(client.received).endswith(said(" again") + ended(candidates=4))


async def test_a_reset_behind_the_finish_loses_nothing(runtime):
    client = asked(runtime)
    body = await runtime.streaming(BEGUN + ended())
    body.fail(httpx.ReadError("reset"))
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED_WITHOUT_TERMINAL
    assert bytes(client.received) == BEGUN + ended()


async def test_a_client_that_leaves_behind_the_finish(runtime):
    client = asked(runtime)
    body = await runtime.streaming(BEGUN + ended(candidates=5))
    await client.leave()
    assert not body.is_closed
    body.end()
    await settle()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.usage.output == 5


async def test_incomplete_at_eof_without_a_finish(runtime):
    client = asked(runtime)
    body = await runtime.streaming(BEGUN)
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.INCOMPLETE
    assert told_in_band(client, BEGUN)["status"] == "UNAVAILABLE"
    assert (outcome.usage.input, outcome.usage.output) == (7, None)
    assert runtime.recorder.evidence[0].received == "Hello"


async def test_incomplete_when_one_of_two_candidates_never_finished(runtime):
    body = orjson.dumps({**QUESTION, "generationConfig": {"candidateCount": 2}})
    client = asked(runtime, body=body)
    answer = await runtime.streaming(said("one") + said("two", 1) + ended())
    answer.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE


async def test_error_event_after_text(runtime):
    client = asked(runtime)
    body = await runtime.streaming(BEGUN)
    body.send(said(" you"), OVERLOADED)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    error = told_in_band(client, BEGUN + said(" you"))
    assert (error["code"], error["status"], error["message"]) == (
        503,
        "UNAVAILABLE",
        "The model is overloaded.",
    )
    assert error["details"][-1]["requestId"].startswith("request-")


@pytest.mark.parametrize("before", [b"", chunk(candidate({"text": ""}))])
async def test_error_event_before_anything_was_said_is_a_refusal(runtime, before):
    client = asked(runtime)
    await runtime.streaming(before + OVERLOADED)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    assert (client.refusal.status, client.refusal.kind) == (503, "UNAVAILABLE")
    assert not client.received


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("is_listed", [True, False])
async def test_json_error_in_a_200(runtime, stream, is_listed):
    error = b'{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}'
    client = asked(runtime, stream=stream)
    body = (await runtime.sent()).headers(headers=JSON)
    body.send(b"[" + error + b"]" if is_listed else error)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
    assert client.refusal.status == 503


@pytest.mark.parametrize("stream", [True, False])
async def test_html_200(runtime, stream):
    client = asked(runtime, stream=stream)
    body = (await runtime.sent()).headers(headers={"content-type": "text/html"})
    body.send(b"<!doctype html><title>Hello</title>")
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.BAD_CONTENT_TYPE
    assert client.refusal.status == 502


@pytest.mark.parametrize("frames", [b"", b": keepalive\n\n", b"data: [DONE]\n\n"])
async def test_empty_response(runtime, frames):
    client = asked(runtime)
    body = await runtime.streaming(frames)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.EMPTY_RESPONSE


async def test_a_stream_of_another_protocol(runtime):
    client = asked(runtime)
    await runtime.streaming(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_PROTOCOL_ERROR


async def test_idle_timeout_is_told_and_silence_is_filled_with_empty_lines(runtime):
    client = asked(runtime)
    await runtime.streaming(BEGUN)
    await runtime.clock.advance(301)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.IDLE_TIMEOUT
    received = bytes(client.received)
    assert received.startswith(BEGUN + b"\r\n" * 19)
    assert b": keepalive" not in received
    assert b'"status":"DEADLINE_EXCEEDED"' in received


async def test_a_broken_frame_in_mid_stream_is_not_relayed(runtime):
    client = asked(runtime)
    body = await runtime.streaming(BEGUN)
    body.send(b'data: {"candidates":[{"con\n\n', b": upstream keepalive\n\n", ended())
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert [error.error_class for error in outcome.attempts[0].soft_errors] == ["not_json"]
    assert bytes(client.received) == BEGUN + ended()


async def test_a_blocked_prompt_is_an_answer(runtime):
    blocked = frame(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage(7, totalTokenCount=7)}
    )
    client = asked(runtime)
    body = await runtime.streaming(blocked)
    body.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert outcome.attempts[0].finish_reasons == ("SAFETY",)
    assert (outcome.usage.input, outcome.usage.output) == (7, 0)


# One JSON array instead of events.


def header(client, name: bytes) -> bytes:
    return dict(client.head.headers)[name]


@pytest.mark.parametrize("name", STREAMS)
async def test_an_array_is_asked_for_as_events(runtime, name):
    client = asked(runtime, array=True)
    exchange = await runtime.sent()
    assert exchange.request.url.raw_path == f"{STREAM}?alt=sse".encode()
    body = await runtime.streaming(STREAMS[name][:300])
    await runtime.clock.advance(20)
    body.send(STREAMS[name][300:])
    body.end()
    await client.end()
    assert header(client, b"content-type") == b"application/json; charset=UTF-8"
    assert json.loads(client.received) == [json.loads(event.data) for event in events_of(STREAMS[name])]
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


async def test_an_array_comes_piece_by_piece(runtime):
    client = asked(runtime, array=True)
    await runtime.streaming(BEGUN)
    await settle()
    assert json.loads(bytes(client.received) + b"]") == [json.loads(events_of(BEGUN)[0].data)]
    await client.leave()


async def test_an_error_is_the_arrays_last_element(runtime):
    client = asked(runtime, array=True)
    body = await runtime.streaming(BEGUN)
    await runtime.clock.advance(20)
    body.send(OVERLOADED)
    await client.end()
    first, last = json.loads(client.received)
    assert first == json.loads(events_of(BEGUN)[0].data)
    assert last["error"]["status"] == "UNAVAILABLE"


async def test_an_array_is_never_begun_before_it_has_an_element(runtime):
    client = asked(runtime, array=True, policy=StreamPolicy(early_commit_s=1.0))
    await runtime.sent()
    await runtime.clock.advance(5)
    assert client.head is None
    await client.leave()


# Stream policies.


async def test_force_stream(runtime):
    client = asked(runtime, stream=False, policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
    assert (await runtime.sent()).request.url.raw_path == f"{STREAM}?alt=sse".encode()
    body = await runtime.streaming(HELLO)
    body.end()
    await client.end()
    [found] = json.loads(client.received)["candidates"]
    assert found["content"]["parts"] == [{"text": "Hello! Größe 😀"}]
    outcome = runtime.recorder.one
    assert (outcome.end_reason, outcome.usage.output) == (EndReason.COMPLETED, 5)
    assert outcome.attempts[0].terminal_seen


async def test_force_stream_makes_no_short_answers(runtime):
    client = asked(runtime, stream=False, policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
    body = await runtime.streaming(BEGUN)
    body.end()
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
    assert client.refusal.status == 502


@pytest.mark.parametrize("array", [True, False])
async def test_force_non_stream(runtime, array):
    client = asked(runtime, array=array, policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM))
    exchange = await runtime.sent()
    assert exchange.request.url.raw_path == GENERATE.encode()
    body = exchange.headers(headers=JSON)
    body.send(WHOLE)
    body.end()
    await client.end()
    received = bytes(client.received)
    chunks = json.loads(received) if array else [json.loads(event.data) for event in events_of(received)]
    texts = [part["text"] for each in chunks for part in each["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "Hi"
    assert chunks[-1]["usageMetadata"] == usage(7, 2)
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


# Calls that are never streamed.


CALLS = {
    "countTokens": ("gemini_count_tokens", QUESTION, b'{"totalTokens": 31}'),
    "embedContent": ("gemini_vectors", {"content": {"parts": []}}, b'{"embedding": {"values": [0.1, 2e-3]}}'),
    "batchEmbedContents": ("gemini_vectors", {"requests": []}, b'{"embeddings": [{"values": [0.10]}]}'),
    "predict": ("gemini_predict", {"instances": []}, b'{"predictions": [{"bytesBase64Encoded": "QQ"}]}'),
}


@pytest.mark.parametrize("mode", ["", "force_stream", "force_non_stream"])
@pytest.mark.parametrize("verb", CALLS)
async def test_answers_that_are_whole_always(runtime, verb, mode):
    dialect, body, answer = CALLS[verb]
    path = f"/v1beta/models/m:{verb}"
    request = a_request(dialect=dialect, path=path, body=orjson.dumps(body), received_at=runtime.clock.now())
    to = with_policy(dataclasses.replace(a_channel(), kind="gemini"), stream_policy=StreamMode(mode))
    client = Client(runtime.engine.start(request, (to,)))
    exchange = await runtime.sent()
    assert exchange.request.url.raw_path == path.encode()
    upstream = exchange.headers(headers=JSON)
    upstream.send(answer)
    upstream.end()
    await client.end()
    outcome = runtime.recorder.one
    assert outcome.end_reason is EndReason.COMPLETED
    assert bytes(client.received) == answer
    expected = {"countTokens": (0, 0, None), "predict": (None, 0, 1)}.get(verb, (None, 0, None))
    assert (outcome.usage.input, outcome.usage.output, outcome.usage.images) == expected
