"""The current `openai` SDK as a tenant uses it: what it is given must be what it understands."""

import openai
import orjson
import pytest

from channels_admin.services import channel_update
from tests.flows.gateway import QUESTION

MESSAGES = [{"role": "user", "content": QUESTION}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
async def sdk(gateway):
    async with gateway.sdk() as client:
        yield client


async def test_whole(sdk):
    answer = await sdk.chat.completions.create(model="echo", messages=MESSAGES)
    assert answer.choices[0].message.content == QUESTION
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 5


async def test_streamed(sdk):
    stream = await sdk.chat.completions.create(model="echo", messages=MESSAGES, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == QUESTION
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


async def test_streamed_with_usage(sdk):
    stream = await sdk.chat.completions.create(
        model="echo", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize(
    "model",
    ["id-lines", "empty-frames", "choices-null-usage", "keepalive-then-answer", "crlf", "unicode-lines", "no-done",
     "double-done", "azure-preamble", "usage-unasked", "bare-deltas", "finish-empty"],
)  # fmt: skip
async def test_upstreams_that_sdks_stumble_over(sdk, model):
    """Each of these breaks the SDK when it talks to the upstream directly, or misleads its user."""
    stream = await sdk.chat.completions.create(model=model, messages=MESSAGES, stream=True)
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text.endswith(QUESTION)
    finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert finishes == ["stop"]


@pytest.mark.parametrize(
    "model", ["parallel-tool-calls", "parallel-tool-calls-no-index", "parallel-tool-calls-same-index"]
)
async def test_parallel_tools_streamed(sdk, model):
    """Assembled by the SDK's own accumulator."""
    async with sdk.chat.completions.stream(model=model, messages=MESSAGES, tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    [choice] = final.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather", "get_weather"]
    assert [orjson.loads(call.function.arguments) for call in calls] == [{"city": "Paris"}, {"city": "Oslo"}]
    assert len({call.id for call in calls}) == 2


async def test_a_tools_loop(sdk):
    """Question, call, result, answer."""
    asked = await sdk.chat.completions.create(model="tool-call", messages=MESSAGES, tools=[WEATHER])
    message = asked.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    history = [*MESSAGES, message.model_dump(exclude_none=True), result]
    answer = await sdk.chat.completions.create(model="tool-call", messages=history, tools=[WEATHER])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "error", "code"),
    [
        ("status-400", openai.BadRequestError, None),
        ("context-length", openai.BadRequestError, "context_length_exceeded"),
        ("status-422", openai.UnprocessableEntityError, None),
        ("429-retry-after-7", openai.RateLimitError, "rate_limit_exceeded"),
        ("status-500", openai.InternalServerError, None),
        ("refuse-keys", openai.InternalServerError, "upstream_credentials_exhausted"),
        ("html-200", openai.InternalServerError, None),
        ("empty-200", openai.InternalServerError, None),
        ("error-in-200", openai.InternalServerError, "overloaded"),
    ],
)
async def test_errors_are_the_sdks_own(sdk, model, error, code, stream):
    with pytest.raises(error) as raised:
        await sdk.chat.completions.create(model=model, messages=MESSAGES, stream=stream)
    assert raised.value.request_id
    if code:
        assert raised.value.code == code
    if error is openai.RateLimitError:
        assert raised.value.response.headers["retry-after"] == "7"


async def test_unknown_model(gateway, sdk):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["gpt-4o"])
    with pytest.raises(openai.NotFoundError, match="gpt-4o") as raised:
        await sdk.chat.completions.create(model="gpt-4", messages=MESSAGES)
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_bad_key(gateway):
    async with gateway.sdk(api_key="sk-" + "x" * 40) as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            await client.chat.completions.create(model="echo", messages=MESSAGES, stream=True)
    assert raised.value.code == "invalid_api_key"


@pytest.mark.parametrize("model", ["error-mid", "vendor-error-object-mid", "cut-after-3", "eof-after-3"])
async def test_what_goes_wrong_in_mid_stream_is_an_exception(sdk, model):
    """Left to itself the SDK would take most of these for a good end."""
    stream = await sdk.chat.completions.create(model=model, messages=MESSAGES, stream=True)
    text = ""
    with pytest.raises(openai.APIError):
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    assert text.rstrip() == "one two three"


async def test_raw_response_headers(sdk):
    raw = await sdk.chat.completions.with_raw_response.create(model="echo", messages=MESSAGES)
    assert raw.headers["x-relay-attempts"] == "1"
    assert raw.request_id == raw.headers["x-request-id"]
    assert (raw.parse()).choices[0].message.content == QUESTION


async def test_streaming_response_headers(gateway, sdk):
    async with sdk.chat.completions.with_streaming_response.create(
        model="echo", messages=MESSAGES, stream=True
    ) as raw:
        assert raw.headers["content-type"].startswith("text/event-stream")
        request_id = raw.headers["x-request-id"]
        lines = [line async for line in raw.iter_lines()]
    assert lines[-2:] == ["data: [DONE]", ""]
    assert (await gateway.record(request_id)).end_reason == "completed"


async def test_closing_a_stream_early_closes_the_upstream(gateway, sdk):
    stream = await sdk.chat.completions.create(model="interval-0.05", messages=MESSAGES, stream=True)
    async for _ in stream:
        break
    await stream.close()
    await gateway.idle()
    [received] = gateway.simulator.requests
    assert received.left_at is not None


async def test_the_sdks_own_retry_finds_a_gateway_that_recovers(gateway):
    async with gateway.sdk(max_retries=3) as client:
        answer = await client.chat.completions.create(model="flaky-2", messages=MESSAGES)
    assert answer.choices[0].message.content == QUESTION
    assert len(gateway.simulator.requests) == 3


async def test_models(gateway, sdk):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["gpt-4o", "org/model"])
    assert [model.id async for model in sdk.models.list()] == ["gpt-4o", "org/model"]
    assert (await sdk.models.retrieve("org/model")).id == "org/model"


async def test_embeddings_speech_and_images_pass(sdk):
    embedded = await sdk.embeddings.create(model="text-embedding-x", input=["a", "b"])
    assert len(embedded.data) == 2
    speech = await sdk.audio.speech.create(model="tts", voice="alloy", input="hello")
    assert speech.content[:256] == bytes(range(256))
    image = await sdk.images.generate(model="image-ok", prompt="a cat")
    assert image.data[0].b64_json
    picture = ("katze-größe.png", b"\x89PNG\xff\x00", "image/png")
    edited = await sdk.images.edit(model="image-ok", prompt="a hat", image=[picture, picture])
    assert edited.data[0].b64_json


async def test_responses_pass_whole_and_streamed(sdk):
    answer = await sdk.responses.create(model="echo", input=QUESTION)
    assert answer.output_text == QUESTION
    stream = await sdk.responses.create(model="echo", input=QUESTION, stream=True)
    events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == QUESTION
