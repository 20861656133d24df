"""The official OpenAI client understands the simulator: what it sends is what OpenAI sends."""

import httpx
import openai
import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION


@pytest.fixture
async def client(simulator: Simulator):
    async with (
        httpx.AsyncClient(trust_env=False) as http,
        openai.AsyncOpenAI(
            base_url=simulator.base_url + "/v1", api_key="any", max_retries=0, http_client=http
        ) as made,
    ):
        yield made


async def test_chat_stream(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model="echo",
        messages=[{"role": "user", "content": QUESTION}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == QUESTION
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10


async def test_chat_tool_call_helper(client: openai.AsyncOpenAI):
    async with client.chat.completions.stream(
        model="tool-call", messages=[{"role": "user", "content": QUESTION}]
    ) as stream:
        completion = await stream.get_final_completion()
    (call,) = completion.choices[0].message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Paris"}')


async def test_responses_stream_helper(client: openai.AsyncOpenAI):
    async with client.responses.stream(model="text-then-tool-call", input=QUESTION) as stream:
        response = await stream.get_final_response()
    assert response.output_text == QUESTION
    assert [item.type for item in response.output] == ["message", "function_call"]


async def test_embeddings_images_speech_models(client: openai.AsyncOpenAI):
    assert len((await client.embeddings.create(model="e", input="x")).data[0].embedding) == 8
    assert ((await client.images.generate(model="image-ok", prompt="x")).data or [])[0].b64_json
    speech = await client.audio.speech.create(model="tts", voice="alloy", input="x")
    assert speech.content == bytes(range(256)) * 16
    assert "echo" in [model.id async for model in await client.models.list()]


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("refuse-keys", openai.AuthenticationError),
        ("status-503", openai.InternalServerError),
        ("context-length", openai.BadRequestError),
        ("429-retry-after-7", openai.RateLimitError),
        ("reset-before-headers", openai.APIConnectionError),
    ],
)
async def test_refusals_raise_what_they_should(
    client: openai.AsyncOpenAI, model: str, error: type[Exception]
):
    with pytest.raises(error):
        await client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}])


async def test_error_mid_raises_in_the_stream(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model="error-mid", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    with pytest.raises(openai.APIError, match="broke down"):
        _ = [chunk async for chunk in stream]
