"""The current `anthropic` SDK as a tenant uses it: what it is given must be what it understands."""

import anthropic
import pytest

from channels_admin.services import channel_update
from tests.factories.channels import a_policy
from tests.flows.gateway import QUESTION
from tests.flows.leftovers import eventually

MESSAGES = [{"role": "user", "content": QUESTION}]
ASKED = {"max_tokens": 1024, "messages": MESSAGES}
WEATHER = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
async def anthropics(gateway):
    """The gateway's one channel is of Anthropic's kind."""
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, kind="anthropic")
    return gateway


def sdk_of(gateway, **options):
    settings = {"base_url": gateway.url, "api_key": gateway.key, "max_retries": 0, "timeout": 10}
    return anthropic.AsyncAnthropic(**{**settings, **options})


@pytest.fixture
async def sdk(anthropics):
    async with sdk_of(anthropics) as client:
        yield client


async def force(gateway, mode: str) -> None:
    policy = await gateway.run(a_policy, stream_policy=mode)
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy_id=policy.pk)


async def final_of(sdk, model: str, **fields):
    async with sdk.messages.stream(model=model, **ASKED, **fields) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_message()


async def test_whole(sdk):
    answer = await sdk.messages.create(model="echo", **ASKED)
    assert [block.text for block in answer.content] == [QUESTION]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens == 5
    assert answer._request_id


async def test_streamed(sdk):
    final = await final_of(sdk, "echo")
    assert [block.text for block in final.content] == [QUESTION]
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens == 5


async def test_the_key_may_come_as_a_bearer_token(anthropics):
    async with sdk_of(anthropics, api_key=None, auth_token=anthropics.key) as client:
        answer = await client.messages.create(model="echo", **ASKED)
    assert answer.content[0].text == QUESTION


async def test_what_the_upstream_is_asked(anthropics, sdk):
    asked = {"betas": ["context-1m-2025-08-07"], "metadata": {"user_id": "u"}, **ASKED}
    await sdk.beta.messages.create(model="echo", extra_query={"beta": "true", "key": "mine"}, **asked)
    [received] = anthropics.simulator.requests
    assert received.path == "/v1/messages"
    assert received.query == {"beta": "true"}
    assert received.header("x-api-key") == "sk-upstream-0123456789abcdef"
    assert received.header("authorization") is None
    assert received.header("anthropic-version") == sdk.default_headers["anthropic-version"]
    assert received.header("anthropic-beta") == "context-1m-2025-08-07"
    assert received.json["metadata"] == {"user_id": "u"}


@pytest.mark.parametrize(
    "model",
    ["no-event-lines", "empty-frames", "keepalive-then-answer", "crlf", "unicode-lines", "no-done", "double-done",
     "one-byte-writes", "multi-line-data", "id-lines", "bom"],
)  # fmt: skip
async def test_upstreams_that_sdks_stumble_over(sdk, model):
    """Several of these break the SDK when it talks to the upstream directly, or mislead its user."""
    final = await final_of(sdk, model)
    assert final.content[0].text.endswith(QUESTION)
    assert final.stop_reason == "end_turn"


@pytest.mark.parametrize("forced", ["", "force_stream", "force_non_stream"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("reasoning", ["thinking", "text"]),
        ("text-then-tool-call", ["text", "tool_use"]),
        ("parallel-tool-calls", ["tool_use", "tool_use"]),
        ("server-tool", ["server_tool_use", "web_search_tool_result", "text"]),
        ("redacted-thinking", ["redacted_thinking", "text"]),
    ],
)
async def test_blocks_of_every_kind(anthropics, model, kinds, stream, forced):
    """The same message, whatever the client asked for and the upstream was asked for."""
    await force(anthropics, forced)
    async with sdk_of(anthropics) as sdk:
        if stream:
            answer = await final_of(sdk, model, tools=[WEATHER])
        else:
            answer = await sdk.messages.create(model=model, tools=[WEATHER], **ASKED)
    assert [block.type for block in answer.content] == kinds
    calls = [block.input for block in answer.content if block.type == "tool_use"]
    assert calls == [{"city": "Paris"}, {"city": "Oslo"}][: len(calls)]
    for block in answer.content:
        if block.type == "thinking":
            assert block.thinking
            assert block.signature == "c2ltdWxhdG9y"
        elif block.type == "server_tool_use":
            assert block.input == {"query": "sluice"}
        elif block.type == "text" and model == "server-tool":
            assert [citation.cited_text for citation in block.citations] == ["A gate that holds water."]
        elif block.type == "redacted_thinking":
            assert block.data == "c2ltdWxhdG9y"
    assert answer.stop_reason == ("tool_use" if calls else "end_turn")
    assert answer.usage.output_tokens > 0
    [received] = anthropics.simulator.requests
    assert received.json.get("stream", False) is {"": stream, "force_stream": True}.get(forced, False)


async def test_a_tools_loop(sdk):
    """Question, call, result, answer."""
    asked = await sdk.messages.create(model="tool-call", tools=[WEATHER], **ASKED)
    call = asked.content[0]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    history = [
        *MESSAGES,
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in asked.content]},
        {"role": "user", "content": [result]},
    ]
    answer = await sdk.messages.create(model="tool-call", messages=history, tools=[WEATHER], max_tokens=1024)
    assert answer.stop_reason == "end_turn"
    assert answer.content[0].type == "text"


async def test_end_turn_behind_a_tool_call_is_tool_use(sdk):
    assert (await final_of(sdk, "tool-call-stop", tools=[WEATHER])).stop_reason == "tool_use"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "error", "kind"),
    [
        ("status-400", anthropic.BadRequestError, "invalid_request_error"),
        ("status-413", anthropic.RequestTooLargeError, "request_too_large"),
        ("429-retry-after-7", anthropic.RateLimitError, "rate_limit_error"),
        ("status-500", anthropic.InternalServerError, "api_error"),
        ("status-529", anthropic.OverloadedError, "overloaded_error"),
        ("refuse-keys", anthropic.InternalServerError, "api_error"),
        ("credit-too-low", anthropic.InternalServerError, "api_error"),
        ("html-200", anthropic.InternalServerError, "api_error"),
        ("empty-200", anthropic.InternalServerError, "api_error"),
    ],
)
async def test_errors_are_the_sdks_own(sdk, model, error, kind, stream):
    with pytest.raises(error) as raised:
        await sdk.messages.create(model=model, stream=stream, **ASKED)
    assert raised.value.type == kind
    assert raised.value.request_id == raised.value.body["request_id"]
    assert "credit" not in str(raised.value)
    if error is anthropic.RateLimitError:
        assert raised.value.response.headers["retry-after"] == "7"


async def test_an_error_in_a_200_is_one(sdk):
    with pytest.raises(anthropic.APIStatusError) as raised:
        await sdk.messages.create(model="error-in-200", **ASKED)
    assert raised.value.status_code >= 500


async def test_bad_key(anthropics):
    async with sdk_of(anthropics, api_key="sk-" + "x" * 40) as client:
        with pytest.raises(anthropic.AuthenticationError) as raised:
            await client.messages.create(model="echo", stream=True, **ASKED)
    assert raised.value.type == "authentication_error"
    assert raised.value.error_code == "invalid_api_key"


async def test_bad_requests_name_the_field_and_reach_nobody(anthropics, sdk):
    with pytest.raises(anthropic.BadRequestError, match="'messages' must be a list of objects"):
        await sdk.messages.create(model="echo", max_tokens=5, messages="hi")
    with pytest.raises(anthropic.BadRequestError, match="'model' is required"):
        await sdk.messages.create(model=None, **ASKED)
    assert anthropics.simulator.requests == []


async def test_unknown_model(anthropics, sdk):
    await anthropics.configure(channel_update, channel_id=anthropics.channel.pk, models=["claude-4-opus"])
    with pytest.raises(anthropic.NotFoundError, match="claude-4-opus") as raised:
        await sdk.messages.create(model="claude-4-opuss", **ASKED)
    assert raised.value.type == "not_found_error"


async def test_a_model_of_another_kinds_channel_is_not_asked_for_here(gateway):
    async with sdk_of(gateway) as client:
        with pytest.raises(anthropic.NotFoundError, match="not available on this endpoint"):
            await client.messages.create(model="echo", **ASKED)
    assert gateway.simulator.requests == []


@pytest.mark.parametrize("model", ["error-mid", "cut-after-3", "eof-after-3", "vendor-error-event-mid"])
async def test_what_goes_wrong_in_mid_stream_is_an_exception(sdk, model):
    """Left to itself the SDK would take a body that just ends for a good end."""
    text = ""
    with pytest.raises(anthropic.APIStatusError) as raised:
        async for event in await sdk.messages.create(model=model, stream=True, **ASKED):
            if event.type == "content_block_delta":
                text += event.delta.text
    assert text.rstrip() == "one two three"
    assert raised.value.body["type"] == "error"
    assert raised.value.body["request_id"] == raised.value.request_id


async def test_counting_tokens(anthropics, sdk):
    """Never streamed, whatever the channel's policy, and free."""
    await force(anthropics, "force_stream")
    count = await sdk.messages.count_tokens(model="echo", messages=MESSAGES)
    assert count.input_tokens == 5
    [received] = anthropics.simulator.requests
    assert received.path == "/v1/messages/count_tokens"
    assert "stream" not in received.json
    raw = await sdk.messages.with_raw_response.count_tokens(model="echo", messages=MESSAGES)
    record = await anthropics.record(raw.headers["x-request-id"])
    assert (record.end_reason, record.dialect) == ("completed", "anthropic_count_tokens")
    assert (record.usage.input, record.usage.output) == (0, 0)


async def test_models(anthropics, sdk):
    models = ["claude-a", "claude-b", "org/model"]
    await anthropics.configure(channel_update, channel_id=anthropics.channel.pk, models=models)
    assert [model.id async for model in sdk.models.list()] == models
    assert [model.id async for model in sdk.models.list(limit=1)] == models
    page = await sdk.models.list(limit=2)
    assert (page.has_more, page.first_id, page.last_id) == (True, "claude-a", "claude-b")
    found = await sdk.models.retrieve("org/model")
    assert (found.id, found.display_name, found.type) == ("org/model", "org/model", "model")
    with pytest.raises(anthropic.NotFoundError) as raised:
        await sdk.models.retrieve("claude-c")
    assert raised.value.type == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="limit"):
        await sdk.models.list(limit=0)


async def test_models_of_other_kinds_are_not_listed(gateway):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["gpt-4o"])
    await gateway.add_channel(gateway.simulator.base_url, kind="anthropic", models=["claude-a"])
    async with sdk_of(gateway) as client:
        assert [model.id async for model in client.models.list()] == ["claude-a"]
    async with gateway.sdk() as client:
        assert [model.id async for model in client.models.list()] == ["claude-a", "gpt-4o"]


async def test_closing_a_stream_early_closes_the_upstream(anthropics, sdk):
    stream = await sdk.messages.create(model="interval-0.05", stream=True, **ASKED)
    async for _ in stream:
        break
    await stream.close()
    await anthropics.idle()
    [received] = anthropics.simulator.requests
    await eventually(lambda: received.left_at is None, "the upstream still answers")


async def test_message_batches_do_not_pass(anthropics, sdk):
    with pytest.raises(anthropic.NotFoundError) as raised:
        await sdk.messages.batches.list()
    assert raised.value.type == "not_found_error"
    assert anthropics.simulator.requests == []
