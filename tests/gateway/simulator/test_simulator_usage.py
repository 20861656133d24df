"""Usage: numbers that add up, and the ways upstreams report them wrongly."""

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, chat, hear, hear_chat

ASKED = {"stream_options": {"include_usage": True}}


async def test_usage_chunk_comes_only_if_asked_for(simulator: Simulator):
    assert (await hear_chat(simulator, "echo")).usages == []
    assert b'"usage"' not in (await hear_chat(simulator, "echo")).body
    heard = await hear_chat(simulator, "echo", **ASKED)
    (usage,) = heard.usages
    assert heard.chunks[-1]["choices"] == []
    assert [chunk["usage"] for chunk in heard.chunks[:-1]] == [None] * (len(heard.chunks) - 1)
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 5, 10)


async def test_streamed_and_whole_usage_agree(simulator: Simulator):
    for model in ("echo", "reasoning", "n-choices", "tool-call", "usage-cached"):
        streamed = await hear_chat(simulator, model, **ASKED)
        whole = await hear_chat(simulator, model, stream=False)
        same = {k: v for k, v in streamed.usages[-1].items() if model != "tool-call" or k != "id"}
        assert same == whole.json["usage"], model
        assert whole.json["usage"]["total_tokens"] == (
            whole.json["usage"]["prompt_tokens"] + whole.json["usage"]["completion_tokens"]
        )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat("usage-missing", **ASKED)),
        ("/v1/chat/completions", chat("usage-missing", stream=False)),
        ("/v1/messages", chat("usage-missing", max_tokens=9)),
        ("/v1/messages", chat("usage-missing", stream=False, max_tokens=9)),
        ("/v1/responses", {"model": "usage-missing", "input": QUESTION, "stream": True}),
        (
            "/v1beta/models/usage-missing:streamGenerateContent?alt=sse",
            {"contents": [{"parts": [{"text": QUESTION}]}]},
        ),
    ],
)
async def test_usage_missing_is_missing_everywhere(simulator: Simulator, path: str, body: dict):
    heard = await hear(simulator, path, body)
    assert heard.status == 200
    assert b"three" in heard.body
    assert b'"usage"' not in heard.body
    assert b'"usageMetadata"' not in heard.body


async def test_usage_unasked_comes_all_the_same(simulator: Simulator):
    heard = await hear_chat(simulator, "usage-unasked")
    assert heard.chunks[-1]["choices"] == []
    assert heard.usages[-1]["completion_tokens"] == 5


async def test_usage_each_chunk_is_cumulative_and_ends_at_the_total(simulator: Simulator):
    heard = await hear_chat(simulator, "usage-each-chunk")
    assert [u["completion_tokens"] for u in heard.usages] == [0, 1, 2, 3, 4, 5, 5]
    assert len(heard.usages) == len(heard.chunks)


async def test_usage_with_finish_stands_on_the_finish_chunk(simulator: Simulator):
    heard = await hear_chat(simulator, "usage-with-finish")
    assert heard.chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert heard.chunks[-1]["usage"]["completion_tokens"] == 5
    assert len(heard.usages) == 1


async def test_choices_null_usage(simulator: Simulator):
    heard = await hear_chat(simulator, "choices-null-usage", **ASKED)
    assert heard.chunks[-1]["choices"] is None
    assert heard.usages[-1]["completion_tokens"] == 5
    assert (await hear_chat(simulator, "choices-null-usage")).usages == []


async def test_cached_tokens_are_part_of_openais_prompt_and_not_of_anthropics(simulator: Simulator):
    openai = (await hear_chat(simulator, "usage-cached", stream=False)).json["usage"]
    assert (openai["prompt_tokens"], openai["prompt_tokens_details"]["cached_tokens"]) == (5, 4)
    anthropic = (await hear(simulator, "/v1/messages", chat("usage-cached", stream=False))).json["usage"]
    assert (anthropic["input_tokens"], anthropic["cache_read_input_tokens"]) == (1, 4)


async def test_prompt_counts_all_messages_and_completion_only_the_echo(simulator: Simulator):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "say this"}]},
    ]
    heard = await hear(simulator, "/v1/chat/completions", {"model": "echo", "messages": messages})
    assert heard.json["choices"][0]["message"]["content"] == "say this"
    assert heard.json["usage"]["prompt_tokens"] == 4
    assert heard.json["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_what_an_answer_used_is_told_afterwards(simulator: Simulator, stream):
    heard = await hear_chat(simulator, "usage-later-2", stream=stream)
    assert b"prompt_tokens" not in heard.body
    identifier = heard.chunks[0]["id"] if stream else heard.json["id"]

    async def ask(path: str):
        return await hear(simulator, f"{path}?id={identifier}", None, method="GET")

    assert [(await ask("/v1/generation")).status for _ in range(2)] == [404, 404]
    told = await ask("/api/v1/generation")
    assert told.status == 200
    data = told.json["data"]
    assert (data["id"], data["native_tokens_prompt"], data["native_tokens_completion"]) == (identifier, 5, 5)
    assert data["tokens_prompt"] != data["native_tokens_prompt"]


async def test_a_generation_nobody_made_is_not_found(simulator: Simulator):
    heard = await hear(simulator, "/v1/generation?id=gen-1", None, method="GET")
    assert (heard.status, heard.json["error"]["message"]) == (404, "Generation gen-1 not found")
