"""How attempts end on OpenAI's other endpoints: each reading and each end, in the dialect of its own."""

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import StreamMode, StreamPolicy
from relay.core.usage import TokenUsage
from tests.fakes.runtime import a_channel
from tests.relay.core.dialects.responses_samples import (
    COMPLETED,
    CREATED,
    ERROR,
    FAILED,
    HELLO,
    IN_PROGRESS,
    INCOMPLETE,
    MESSAGE,
    TEXT_STREAM,
    WORLD,
    call_events,
    event,
    events_of,
    response,
)

JSON = {"content-type": "application/json"}
MP3 = {"content-type": "audio/mpeg"}
HTML = {"content-type": "text/html"}
USAGE = TokenUsage(input=36, cached_input=12, output=87, reasoning=64)
SSE = {"content-type": "text/event-stream"}


def asking(path: str, dialect: str, **fields: object) -> dict[str, object]:
    body = orjson.dumps({"model": "m", "input": "hi", "prompt": "hi", **fields})
    return {"path": path, "dialect": dialect, "body": body}


def responses(**fields: object) -> dict[str, object]:
    return asking("/v1/responses", "openai_responses", **{"stream": True, **fields})


async def answer(
    runtime, asked, *channels, headers=None, data: bytes = b"", end: bool = True, number: int = 0
):
    client = runtime.ask(*channels, **asked)
    body = (await runtime.sent(number)).headers(headers=headers)
    if data:
        body.send(data)
    if end:
        body.end()
    return await client.end()


def in_band_error(client) -> dict[str, object]:
    last = events_of(bytes(client.received))[-1]
    assert last.event == "error"
    return orjson.loads(last.data)


class TestResponses:
    async def test_completed(self, runtime):
        client = await answer(runtime, responses(), data=b"".join(TEXT_STREAM))
        assert bytes(client.received) == b"".join(TEXT_STREAM)
        outcome = runtime.recorder.one
        assert outcome.end_reason is EndReason.COMPLETED
        assert (outcome.usage, outcome.model_answered) == (USAGE, "gpt-5-2025-08-07")
        [attempt] = outcome.attempts
        assert attempt.terminal_seen
        assert attempt.finish_reasons == ("completed",)
        assert attempt.usage_complete

    async def test_completed_while_the_upstream_keeps_the_connection_open(self, runtime):
        client = runtime.ask(**responses())
        body = await runtime.streaming(b"".join(TEXT_STREAM))
        assert bytes(client.received) == b"".join(TEXT_STREAM)
        await runtime.clock.advance(1)
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.COMPLETED
        assert body.is_closed

    async def test_incomplete_is_a_success(self, runtime):
        client = await answer(runtime, responses(), data=CREATED + HELLO + INCOMPLETE)
        assert bytes(client.received) == CREATED + HELLO + INCOMPLETE
        outcome = runtime.recorder.one
        assert outcome.end_reason is EndReason.COMPLETED
        assert outcome.attempts[0].finish_reasons == ("max_output_tokens",)
        assert outcome.usage == USAGE

    @pytest.mark.parametrize("failure", [FAILED, ERROR])
    async def test_a_failure_before_anything_was_said_is_a_refusal(self, runtime, failure):
        client = await answer(runtime, responses(), data=CREATED + IN_PROGRESS + failure)
        assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
        assert client.refusal is not None
        assert not client.received

    async def test_a_failure_before_anything_was_said_goes_to_the_next_channel(self, runtime):
        asked = {**responses(), "idempotency_key": "k"}
        client = runtime.ask(a_channel(), a_channel(number=2), **asked)
        (await runtime.sent(0)).headers().send(CREATED + FAILED)
        body = (await runtime.sent(1)).headers()
        body.send(b"".join(TEXT_STREAM))
        body.end()
        await client.end()
        assert bytes(client.received) == b"".join(TEXT_STREAM)

    async def test_a_response_is_not_asked_for_twice_without_a_key(self, runtime):
        """It may have been stored, billed, or have run tools."""
        await answer(runtime, responses(), a_channel(), a_channel(number=2), data=FAILED)
        assert len(runtime.transport.exchanges) == 1

    @pytest.mark.parametrize(("failure", "message"), [(FAILED, "it broke"), (ERROR, "slow down")])
    async def test_a_failure_after_text_is_told_in_band(self, runtime, failure, message):
        client = runtime.ask(**responses())
        body = await runtime.streaming(CREATED, HELLO)
        body.send(failure)
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_ERROR_EVENT
        assert bytes(client.received).startswith(CREATED + HELLO)
        error = in_band_error(client)
        assert error["message"] == message
        assert error["error"]["request_id"]
        assert b"response.completed" not in client.received

    async def test_eof_without_an_end_is_incomplete(self, runtime):
        """Wei-Shaw/sub2api#4698: it was taken for a good end and no health check saw it."""
        client = await answer(runtime, responses(), data=CREATED + HELLO + WORLD)
        assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
        assert in_band_error(client)["type"] == "error"

    async def test_done_is_no_end(self, runtime):
        client = await answer(runtime, responses(), data=HELLO + b"data: [DONE]\n\n")
        assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
        assert b"[DONE]" not in client.received

    async def test_a_reset_after_text(self, runtime):
        client = runtime.ask(**responses())
        body = await runtime.streaming(CREATED, HELLO)
        body.fail(httpx.ReadError("reset"))
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
        assert in_band_error(client)

    @pytest.mark.parametrize(
        ("headers", "data", "reason"),
        [
            (JSON, b'{"error":{"message":"no","type":"server_error"}}', EndReason.UPSTREAM_ERROR_EVENT),
            (JSON, orjson.dumps(response(MESSAGE)), EndReason.BAD_CONTENT_TYPE),
            (HTML, b"<html><title>Bad gateway</title>", EndReason.BAD_CONTENT_TYPE),
            (None, b"", EndReason.EMPTY_RESPONSE),
            (None, b"data: [DONE]\n\n", EndReason.EMPTY_RESPONSE),
            (None, b"data: oops\n\n", EndReason.UPSTREAM_PROTOCOL_ERROR),
            (None, CREATED, EndReason.INCOMPLETE),
        ],
    )
    async def test_a_200_that_is_none(self, runtime, headers, data, reason):
        client = await answer(runtime, responses(), headers=headers, data=data)
        assert runtime.recorder.one.end_reason is reason
        assert client.refusal is not None

    async def test_json_for_a_stream_that_stops_halfway_is_given_up(self, runtime):
        client = runtime.ask(**responses())
        (await runtime.sent()).headers(headers=JSON).send(b'{"error":{"mess')
        await runtime.clock.advance(301)
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.IDLE_TIMEOUT
        assert client.refusal.status == 504

    async def test_whole(self, runtime):
        body = orjson.dumps(response(MESSAGE))
        client = await answer(runtime, responses(stream=False), headers=JSON, data=body)
        assert bytes(client.received) == body
        assert runtime.recorder.one.usage == USAGE

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (
                orjson.dumps(response(status="failed", error={"code": "c", "message": "m"})),
                EndReason.UPSTREAM_ERROR_EVENT,
            ),
            (b'{"object":"list","data":[]}', EndReason.UPSTREAM_PROTOCOL_ERROR),
            (orjson.dumps(response(status="in_progress")), EndReason.UPSTREAM_PROTOCOL_ERROR),
        ],
    )
    async def test_whole_failures(self, runtime, data, reason):
        client = await answer(runtime, responses(stream=False), headers=JSON, data=data)
        assert runtime.recorder.one.end_reason is reason
        assert client.refusal is not None

    async def test_force_stream(self, runtime):
        channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
        client = await answer(runtime, responses(stream=False), channel, data=b"".join(TEXT_STREAM))
        assert orjson.loads(client.received) == response(MESSAGE)
        assert orjson.loads(runtime.transport.exchanges[0].request.content)["stream"] is True
        assert runtime.recorder.one.usage == USAGE

    async def test_force_stream_never_gives_a_short_answer(self, runtime):
        channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
        client = await answer(runtime, responses(stream=False), channel, data=CREATED + HELLO)
        assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
        assert client.refusal is not None

    async def test_force_non_stream(self, runtime):
        channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM))
        body = orjson.dumps(response(MESSAGE))
        client = await answer(runtime, responses(), channel, headers=JSON, data=body)
        events = events_of(bytes(client.received))
        assert orjson.loads(events[-1].data)["response"] == response(MESSAGE)
        assert events[-1].event == "response.completed"
        assert orjson.loads(runtime.transport.exchanges[0].request.content)["stream"] is False

    async def test_an_unasked_for_stream_is_made_whole(self, runtime):
        client = await answer(runtime, responses(stream=False), data=b"".join(TEXT_STREAM))
        assert orjson.loads(client.received) == response(MESSAGE)

    async def test_the_preamble_waits_for_what_follows_but_not_for_ever(self, runtime):
        client = runtime.ask(**responses())
        body = await runtime.streaming(CREATED, IN_PROGRESS)
        assert not client.received
        await runtime.clock.advance(1.1)
        assert bytes(client.received) == CREATED + IN_PROGRESS
        body.send(HELLO, COMPLETED)
        body.end()
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.COMPLETED

    async def test_a_client_that_leaves_pays_for_what_came(self, runtime):
        client = runtime.ask(**responses())
        picture = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"}
        body = await runtime.streaming(
            CREATED, HELLO, event("response.output_item.done", output_index=0, item=picture)
        )
        await client.leave()
        assert body.is_closed
        outcome = runtime.recorder.one
        assert outcome.end_reason is EndReason.CLIENT_DISCONNECTED
        assert outcome.usage == TokenUsage(images=1)

    async def test_a_broken_tool_call_is_a_soft_error(self, runtime):
        ended = event("response.completed", response=response())
        client = await answer(
            runtime, responses(), data=b"".join(call_events('{"ci', arguments='{"ci')) + ended
        )
        assert client.refusal is None
        [attempt] = runtime.recorder.one.attempts
        assert [one.error_class for one in attempt.soft_errors] == ["tool_call_invalid"]


PICTURES = (
    b'{ "created": 1, "data": [ {"b64_json": "AAAA"} ], "usage": {"input_tokens":5,"output_tokens":100} }'
)
DRAWN = b'event: image_generation.completed\ndata: {"type":"image_generation.completed","b64_json":"AAAA","usage":{"input_tokens":5,"output_tokens":100}}\n\n'
PARTIAL = b'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","b64_json":"AA"}\n\n'
DRAWN_USAGE = TokenUsage(input=5, output=100, image_output=100, images=1)


def images(**fields: object) -> dict[str, object]:
    return asking("/v1/images/generations", "openai_images", **fields)


class TestImages:
    @pytest.mark.parametrize("mode", StreamMode)
    async def test_policies_do_not_touch_them(self, runtime, mode):
        channel = a_channel(policy=StreamPolicy(stream_policy=mode))
        client = await answer(runtime, images(), channel, headers=JSON, data=PICTURES)
        assert bytes(client.received) == PICTURES
        assert dict(client.head.headers)[b"content-type"] == b"application/json"
        assert runtime.recorder.one.usage == DRAWN_USAGE

    async def test_streamed(self, runtime):
        client = await answer(runtime, images(stream=True), data=PARTIAL + PARTIAL + DRAWN)
        assert bytes(client.received) == PARTIAL + PARTIAL + DRAWN
        outcome = runtime.recorder.one
        assert outcome.end_reason is EndReason.COMPLETED
        assert outcome.usage == DRAWN_USAGE
        assert outcome.attempts[0].terminal_seen

    async def test_an_upstream_that_does_not_stream_is_taken_as_it_is(self, runtime):
        """The picture has been drawn and paid for."""
        client = await answer(runtime, images(stream=True), headers=JSON, data=PICTURES)
        assert bytes(client.received) == PICTURES
        assert runtime.recorder.one.usage == DRAWN_USAGE

    async def test_a_stream_that_ends_before_the_picture(self, runtime):
        client = await answer(runtime, images(stream=True), data=PARTIAL)
        assert runtime.recorder.one.end_reason is EndReason.INCOMPLETE
        assert b'"error"' in client.received

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b'{"error":{"message":"no","code":"moderation_blocked"}}', EndReason.UPSTREAM_ERROR_EVENT),
            (b'{"created":1}', EndReason.UPSTREAM_PROTOCOL_ERROR),
            (b"oops", EndReason.UPSTREAM_PROTOCOL_ERROR),
            (b" ", EndReason.EMPTY_RESPONSE),
        ],
    )
    async def test_a_200_without_a_picture(self, runtime, data, reason):
        client = await answer(runtime, images(), headers=JSON, data=data)
        assert runtime.recorder.one.end_reason is reason
        assert client.refusal is not None


class TestVectors:
    BODY = b'{"object":"list","data":[{"embedding":[0.10,1e-3]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}}'
    ASKED = asking("/v1/embeddings", "openai_vectors", stream=True)

    @pytest.mark.parametrize("mode", StreamMode)
    async def test_pass_as_they_came(self, runtime, mode):
        channel = a_channel(policy=StreamPolicy(stream_policy=mode))
        client = await answer(runtime, self.ASKED, channel, headers=JSON, data=self.BODY)
        assert bytes(client.received) == self.BODY
        outcome = runtime.recorder.one
        assert outcome.usage == TokenUsage(input=8, output=0)
        assert outcome.attempts[0].usage_complete

    async def test_an_error_in_a_200_goes_to_the_next_channel(self, runtime):
        client = runtime.ask(a_channel(), a_channel(number=2), **self.ASKED)
        first = (await runtime.sent(0)).headers(headers=JSON)
        first.send(b'{"error":{"message":"no"}}')
        first.end()
        second = (await runtime.sent(1)).headers(headers=JSON)
        second.send(self.BODY)
        second.end()
        await client.end()
        assert bytes(client.received) == self.BODY

    async def test_time_is_limited(self, runtime):
        client = runtime.ask(**self.ASKED)
        await runtime.sent()
        await runtime.clock.advance(301)
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.NON_STREAM_TIMEOUT
        assert client.refusal.status == 504


class TestSound:
    SPEECH = asking("/v1/audio/speech", "openai_speech", input="größe")
    SOUND = bytes(range(256)) * 4

    async def test_speech_is_paid_by_its_characters(self, runtime):
        client = await answer(runtime, self.SPEECH, headers=MP3, data=self.SOUND)
        assert bytes(client.received) == self.SOUND
        assert dict(client.head.headers)[b"content-type"] == b"audio/mpeg"
        assert runtime.recorder.one.usage == TokenUsage(characters=5)

    async def test_sound_begins_before_it_ends(self, runtime):
        client = runtime.ask(**self.SPEECH)
        body = (await runtime.sent()).headers(headers=MP3)
        body.send(self.SOUND)
        await runtime.clock.advance(1)
        assert bytes(client.received) == self.SOUND
        body.end()
        await client.end()

    async def test_speech_that_was_refused_costs_nothing(self, runtime):
        client = await answer(runtime, self.SPEECH, headers=JSON, data=b'{"error":{"message":"no voice"}}')
        outcome = runtime.recorder.one
        assert outcome.end_reason is EndReason.UPSTREAM_ERROR_EVENT
        assert client.refusal is not None
        assert outcome.usage is None
        assert outcome.attempts[0].usage is None

    async def test_speech_in_events_has_tokens_too(self, runtime):
        said = b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
        done = b'data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101}}\n\n'
        asked = asking("/v1/audio/speech", "openai_speech", input="hi", stream_format="sse")
        client = await answer(runtime, asked, data=said + done)
        assert bytes(client.received) == said + done
        assert runtime.recorder.one.usage == TokenUsage(input=14, output=101, characters=2)

    async def test_transcripts_are_read_whole(self, runtime):
        body = b'{"text":"x","usage":{"type":"duration","seconds":9}}'
        asked = asking("/v1/audio/transcriptions", "openai_transcriptions")
        client = await answer(runtime, asked, headers=JSON, data=body)
        assert bytes(client.received) == body
        assert runtime.recorder.one.usage == TokenUsage(input=0, output=0, audio_ms=9000)

    async def test_subtitles_pass_as_they_are(self, runtime):
        subtitles = "1\n00:00:00,000 --> 00:00:01,000\ngröße\n".encode()
        plain = {"content-type": "text/plain; charset=utf-8"}
        asked = asking("/v1/audio/transcriptions", "openai_transcriptions", response_format="srt")
        client = await answer(runtime, asked, headers=plain, data=subtitles)
        assert bytes(client.received) == subtitles
        assert dict(client.head.headers)[b"content-type"] == b"text/plain; charset=utf-8"

    async def test_whisper_does_not_stream_whatever_is_asked(self, runtime):
        body = b'{"text":"x","duration":1.5}'
        asked = asking("/v1/audio/transcriptions", "openai_transcriptions", stream=True)
        client = await answer(runtime, asked, headers=JSON, data=body)
        assert bytes(client.received) == body
        assert runtime.recorder.one.usage == TokenUsage(input=0, output=0, audio_ms=1500)

    async def test_json_that_stops_halfway_is_given_up(self, runtime):
        client = runtime.ask(**self.SPEECH)
        (await runtime.sent()).headers(headers=JSON).send(b'{"err')
        await runtime.clock.advance(301)
        await client.end()
        assert runtime.recorder.one.end_reason is EndReason.IDLE_TIMEOUT
        assert client.refusal is not None


class TestCompletions:
    HELLO = b'data: {"id":"c","object":"text_completion","model":"m","choices":[{"text":"Hello","index":0,"finish_reason":null}]}\n\n'
    STOP = b'data: {"id":"c","object":"text_completion","model":"m","choices":[{"text":"","index":0,"finish_reason":"stop"}]}\n\n'
    USAGE = b'data: {"id":"c","object":"text_completion","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
    DONE = b"data: [DONE]\n\n"
    STREAM = HELLO + STOP + USAGE + DONE

    def asked(self, *, stream: bool) -> dict[str, object]:
        return asking("/v1/completions", "openai_completions", stream=stream)

    async def test_streamed(self, runtime):
        client = await answer(runtime, self.asked(stream=True), data=self.STREAM)
        assert bytes(client.received) == self.HELLO + self.STOP + self.DONE
        assert runtime.recorder.one.usage == TokenUsage(input=7, output=2)

    async def test_force_stream(self, runtime):
        channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
        client = await answer(runtime, self.asked(stream=False), channel, data=self.STREAM)
        whole = orjson.loads(client.received)
        assert whole["choices"] == [{"text": "Hello", "index": 0, "finish_reason": "stop", "logprobs": None}]
        assert whole["usage"] == {"prompt_tokens": 7, "completion_tokens": 2}

    async def test_force_non_stream(self, runtime):
        channel = a_channel(policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM))
        body = b'{"id":"c","model":"m","choices":[{"text":"Hello","index":0,"finish_reason":"stop"}]}'
        client = await answer(runtime, self.asked(stream=True), channel, headers=JSON, data=body)
        events = events_of(bytes(client.received))
        assert events[-1].data == "[DONE]"
        assert "".join(orjson.loads(one.data)["choices"][0]["text"] for one in events[:-1]) == "Hello"
