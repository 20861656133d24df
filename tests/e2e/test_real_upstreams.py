"""Chat through the gateway with two servers nobody here wrote: a mock in JavaScript, and llama.cpp.

They are fetched from the package registries once, so they run only when asked for: REAL_UPSTREAMS=1.
"""

import os
from dataclasses import dataclass

import openai
import orjson
import pytest

from channels_admin.services import channel_update
from tests.e2e.real_upstreams import servers
from tests.factories.channels import a_policy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.environ.get("REAL_UPSTREAMS") != "1", reason="downloads two packages: set REAL_UPSTREAMS=1"
    ),
]


@dataclass(frozen=True)
class Upstream:
    """question: one it can answer. limit: most tokens it may say, and the finish reason that goes with it."""

    url: str
    question: str
    finish: str
    limit: int | None = None


@pytest.fixture(scope="module")
def aimock(tmp_path_factory):
    try:
        with servers.aimock(tmp_path_factory.mktemp("aimock")) as url:
            yield Upstream(url, "greet me", "stop")
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    try:
        with servers.llama_cpp(tmp_path_factory.mktemp("llama")) as url:
            yield Upstream(url, "hello", "length", limit=12)
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["aimock", "llama"])
def upstream(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
async def sdk(gateway):
    async with gateway.sdk() as client:
        yield client


async def _use(gateway, upstream: Upstream, **fields) -> None:
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url, **fields)


def _asking(upstream: Upstream, **fields) -> dict:
    limit = {"max_tokens": upstream.limit} if upstream.limit else {}
    messages = [{"role": "user", "content": upstream.question}]
    return {"model": "gpt-4o", "messages": messages, **limit, **fields}


async def _recorded(gateway, request_id: str):
    row = await gateway.record(request_id)
    [attempt] = row.attempts.all()
    assert (row.status, row.end_reason) == (200, "completed")
    assert attempt.soft_error_count == 0
    assert attempt.usage_complete
    assert row.usage.source == "reported"
    return row, attempt


async def test_whole(gateway, sdk, upstream):
    await _use(gateway, upstream)
    raw = await sdk.chat.completions.with_raw_response.create(**_asking(upstream))
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == upstream.finish
    row, _ = await _recorded(gateway, raw.headers["x-request-id"])
    assert (row.usage.input, row.usage.output) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert row.usage.output > 0


@pytest.mark.parametrize("asks_for_usage", [True, False])
async def test_streamed(gateway, sdk, upstream, asks_for_usage):
    await _use(gateway, upstream)
    options = {"stream_options": {"include_usage": True}} if asks_for_usage else {}
    raw = await sdk.chat.completions.with_raw_response.create(**_asking(upstream, stream=True, **options))
    chunks = [chunk async for chunk in raw.parse()]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices)
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == [upstream.finish]
    told = [chunk.usage for chunk in chunks if chunk.usage]
    assert bool(told) == asks_for_usage
    row, attempt = await _recorded(gateway, raw.headers["x-request-id"])
    assert attempt.terminal_seen
    assert attempt.finish_reasons == [upstream.finish]
    assert row.usage.output > 0
    if told:
        assert (row.usage.input, row.usage.output) == (told[0].prompt_tokens, told[0].completion_tokens)


@pytest.mark.parametrize("policy", ["force_stream", "force_non_stream"])
async def test_stream_policies(gateway, sdk, upstream, policy):
    row = await gateway.run(a_policy, stream_policy=policy)
    await _use(gateway, upstream, policy=row)
    raw = await sdk.chat.completions.with_raw_response.create(
        **_asking(upstream, stream=policy == "force_non_stream")
    )
    if policy == "force_stream":
        text = raw.parse().choices[0].message.content
    else:
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in raw.parse()])
    assert text
    _, attempt = await _recorded(gateway, raw.headers["x-request-id"])
    assert attempt.stream_asked != attempt.stream_sent


async def test_text_is_not_changed(gateway, sdk, aimock):
    await _use(gateway, aimock)
    stream = await sdk.chat.completions.create(**_asking(aimock, stream=True))
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == servers.GREETING


async def test_a_tool_call(gateway, sdk, aimock):
    await _use(gateway, aimock)
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    asked = _asking(aimock, tools=[tool], messages=[{"role": "user", "content": "weather"}])
    async with sdk.chat.completions.stream(**asked) as stream:
        final = await stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls
    assert (call.function.name, orjson.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    assert final.choices[0].finish_reason == "tool_calls"


async def test_its_refusal_is_the_requests_own_fault(gateway, sdk, llama):
    """More words than the context holds."""
    await _use(gateway, llama)
    messages = [{"role": "user", "content": "the river " * 2000}]
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
    row = await gateway.record(raised.value.request_id)
    assert (row.status, row.end_reason) == (400, "upstream_rejected")


async def test_leaving_frees_its_only_slots(gateway, sdk, llama):
    """Two slots, four clients that leave: the fifth is served at once."""
    await _use(gateway, llama)
    for _ in range(4):
        stream = await sdk.chat.completions.create(**_asking(llama, stream=True) | {"max_tokens": 400})
        async for _ in stream:
            break
        await stream.close()
    answer = await sdk.chat.completions.create(**_asking(llama))
    assert answer.choices[0].message.content
    await gateway.recorded()
