"""The current `google-genai` SDK as a tenant uses it: what it is given must be what it understands."""

import pytest
from google import genai
from google.genai import errors, types

from channels_admin.services import channel_update
from relay.upstream import pump
from tests.factories.channels import a_policy
from tests.flows.gateway import QUESTION

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
"""What the SDK does with aiohttp."""

WEATHER = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="get_weather",
            parameters_json_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        )
    ]
)


@pytest.fixture
async def googles(gateway):
    """The gateway's one channel is of Google's kind."""
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, kind="gemini")
    return gateway


def sdk_of(gateway, version=None, **options):
    http = types.HttpOptions(base_url=gateway.url, api_version=version, timeout=10_000)
    return genai.Client(**{"api_key": gateway.key, "http_options": http, **options})


@pytest.fixture(params=[None, "v1beta"])
async def sdk(googles, request):
    """As it comes, and told which version to ask for."""
    client = sdk_of(googles, request.param)
    yield client.aio
    await client.aio.aclose()


async def force(gateway, mode: str) -> None:
    policy = await gateway.run(a_policy, stream_policy=mode)
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy_id=policy.pk)


async def chunks_of(sdk, model: str, **config):
    stream = await sdk.models.generate_content_stream(
        model=model, contents=QUESTION, config=types.GenerateContentConfig(**config)
    )
    return [chunk async for chunk in stream]


def text_of(chunks) -> str:
    return "".join(chunk.text or "" for chunk in chunks)


async def test_whole(sdk):
    answer = await sdk.models.generate_content(model="echo", contents=QUESTION)
    assert answer.text == QUESTION
    assert answer.candidates[0].finish_reason is types.FinishReason.STOP
    assert answer.usage_metadata.candidates_token_count == 5


async def test_streamed(sdk):
    chunks = await chunks_of(sdk, "echo")
    assert len(chunks) > 3
    assert text_of(chunks) == QUESTION
    assert chunks[-1].candidates[0].finish_reason is types.FinishReason.STOP
    assert chunks[-1].usage_metadata.candidates_token_count == 5


async def test_what_the_upstream_is_asked(googles, sdk):
    await sdk.models.generate_content(
        model="echo",
        contents=QUESTION,
        config=types.GenerateContentConfig(temperature=0.5, max_output_tokens=99),
    )
    [received] = googles.simulator.requests
    assert received.path.endswith("/models/echo:generateContent")
    assert received.header("x-goog-api-key") == "sk-upstream-0123456789abcdef"
    assert received.header("authorization") is None
    assert received.header("x-goog-api-client") is None
    assert "key" not in received.query
    assert received.json["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 99}


async def test_the_mapped_model_is_asked_for_in_the_path(googles, sdk):
    await googles.configure(
        channel_update, channel_id=googles.channel.pk, models=["mine"], model_mapping={"mine": "echo-0"}
    )
    assert text_of(await chunks_of(sdk, "mine")) == QUESTION
    [received] = googles.simulator.requests
    assert received.path.endswith("/models/echo-0:streamGenerateContent")
    assert received.query == {"alt": "sse"}


@pytest.mark.parametrize(
    "model",
    ["empty-frames", "keepalive-then-answer", "crlf", "unicode-lines", "one-byte-writes", "multi-line-data",
     "id-lines", "bom"],
)  # fmt: skip
async def test_upstreams_that_sdks_stumble_over(sdk, model):
    """Several of these break the SDK when it talks to the upstream directly."""
    chunks = await chunks_of(sdk, model)
    assert text_of(chunks).endswith(QUESTION)
    assert chunks[-1].candidates[0].finish_reason is types.FinishReason.STOP


async def test_silence_is_filled_with_what_the_sdk_skips(googles, sdk, monkeypatch):
    """It reads a comment as JSON, and fails."""
    monkeypatch.setattr(pump.Pump.__init__, "__kwdefaults__", {"keepalive_s": 0.05, "write_timeout_s": 60.0})
    assert text_of(await chunks_of(sdk, "interval-0.3")).endswith(QUESTION)


@pytest.mark.parametrize("forced", ["", "force_stream", "force_non_stream"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["reasoning", "text-then-tool-call", "parallel-tool-calls"])
async def test_parts_of_every_kind(googles, model, stream, forced):
    """The same answer, whatever the client asked for and the upstream was asked for."""
    await force(googles, forced)
    client = sdk_of(googles)
    config = {"tools": [WEATHER], "automatic_function_calling": {"disable": True}}
    if stream:
        answers = await chunks_of(client.aio, model, **config)
    else:
        answers = [
            await client.aio.models.generate_content(
                model=model, contents=QUESTION, config=types.GenerateContentConfig(**config)
            )
        ]
    await client.aio.aclose()
    parts = [part for answer in answers for part in answer.candidates[0].content.parts or ()]
    calls = [part.function_call.args for part in parts if part.function_call]
    thoughts = "".join(part.text for part in parts if part.thought and part.text)
    assert bool(thoughts) == (model == "reasoning")
    assert calls == [{"city": "Paris"}, {"city": "Oslo"}][: len(calls)]
    assert len(calls) == {"reasoning": 0, "text-then-tool-call": 1, "parallel-tool-calls": 2}[model]
    assert answers[-1].candidates[0].finish_reason is types.FinishReason.STOP
    assert answers[-1].usage_metadata.total_token_count > 0
    [received] = googles.simulator.requests
    was_streamed = received.path.endswith(":streamGenerateContent")
    assert was_streamed is {"force_stream": True, "force_non_stream": False}.get(forced, stream)


async def test_the_sdks_own_tool_loop(sdk):
    """Question, call, the SDK runs the function, result, answer."""
    asked = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "sunny"

    config = types.GenerateContentConfig(tools=[get_weather])
    answer = await sdk.models.generate_content(model="tool-call", contents=QUESTION, config=config)
    assert len(asked) == 1
    assert answer.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "error", "code", "status"),
    [
        ("status-400", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("status-404", errors.ClientError, 404, "NOT_FOUND"),
        ("429-retry-after-7", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("status-500", errors.ServerError, 500, "INTERNAL"),
        ("status-503", errors.ServerError, 503, "UNAVAILABLE"),
        ("refuse-keys", errors.ServerError, 502, "UNAVAILABLE"),
        ("html-200", errors.ServerError, 502, "UNAVAILABLE"),
        ("empty-200", errors.ServerError, 502, "UNAVAILABLE"),
    ],
)
async def test_errors_are_the_sdks_own(sdk, model, error, code, status, stream):  # noqa: PLR0917  one row each
    with pytest.raises(error) as raised:
        if stream:
            await chunks_of(sdk, model)
        else:
            await sdk.models.generate_content(model=model, contents=QUESTION)
    assert (raised.value.code, raised.value.status) == (code, status)
    assert raised.value.message


async def test_code_that_the_upstream_runs_may_take_its_time(sdk):
    """Google finishes, is silent for longer than a usage is waited for, and goes on."""
    chunks = await chunks_of(sdk, "code-round-6")
    assert text_of(chunks) == QUESTION
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    assert parts[0].executable_code.code == "print(2)"
    assert parts[1].code_execution_result.output == "2\n"


async def test_an_error_behind_text_is_raised(sdk):
    seen = []
    stream = await sdk.models.generate_content_stream(model="error-mid", contents=QUESTION)
    with pytest.raises(errors.APIError) as raised:
        async for chunk in stream:
            seen += [chunk.text]
    assert seen
    assert raised.value.code >= 500


async def test_bad_key(googles):
    client = sdk_of(googles, api_key="sk-" + "x" * 40)
    with pytest.raises(errors.ClientError) as raised:
        await client.aio.models.generate_content(model="echo", contents=QUESTION)
    await client.aio.aclose()
    assert (raised.value.code, raised.value.status) == (401, "UNAUTHENTICATED")
    assert googles.simulator.requests == []


async def test_unknown_model(googles, sdk):
    await googles.configure(channel_update, channel_id=googles.channel.pk, models=["gemini-2.5-flash"])
    with pytest.raises(errors.ClientError, match=r"Did you mean gemini-2\.5-flash\?") as raised:
        await sdk.models.generate_content(model="gemini-2.5-flush", contents=QUESTION)
    assert (raised.value.code, raised.value.status) == (404, "NOT_FOUND")


async def test_token_counts_and_vectors(googles, sdk):
    counted = await sdk.models.count_tokens(model="echo", contents=QUESTION)
    assert counted.total_tokens == 5
    vectors = await sdk.models.embed_content(model="echo", contents=[QUESTION, "and another"])
    assert len(vectors.embeddings) == 2
    assert all(each.values for each in vectors.embeddings)


async def test_lists_of_models(googles, sdk):
    names = [f"gemini-{number:03}" for number in range(120)]
    await googles.configure(channel_update, channel_id=googles.channel.pk, models=names)
    listed = [model.name async for model in await sdk.models.list(config={"page_size": 50})]
    assert listed == [f"models/{name}" for name in names]
    one = await sdk.models.get(model="gemini-007")
    assert (one.name, one.display_name) == ("models/gemini-007", "gemini-007")
    with pytest.raises(errors.ClientError) as raised:
        await sdk.models.get(model="nope")
    assert raised.value.status == "NOT_FOUND"
