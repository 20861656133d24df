"""The behaviours that only Anthropic's shape has."""

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, chat, hear


async def ask(simulator: Simulator, model: str, *, stream: bool = True):
    return await hear(simulator, "/v1/messages", chat(model, stream=stream, max_tokens=100))


def block_types(heard) -> list[str]:
    return [chunk["content_block"]["type"] for chunk in heard.chunks if "content_block" in chunk]


async def test_events_without_their_names(simulator: Simulator):
    heard = await ask(simulator, "no-event-lines")
    plain = await ask(simulator, "echo")
    assert {name for name, _ in heard.events} == {None}
    assert [chunk["type"] for chunk in heard.chunks] == [name for name, _ in plain.events]


async def test_cache_writes_are_split_at_the_start_and_totals_repeated_at_the_end(simulator: Simulator):
    heard = await ask(simulator, "usage-cache-writes")
    first, last = heard.chunks[0]["message"]["usage"], heard.chunks[-2]["usage"]
    split = {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}
    assert first["cache_creation"] == split
    assert "cache_creation" not in last
    totals = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert [first[name] for name in totals] == [last[name] for name in totals] == [7, 20, 100]
    assert (await ask(simulator, "usage-cache-writes", stream=False)).json["usage"]["cache_creation"] == split


async def test_zero_at_the_end(simulator: Simulator):
    heard = await ask(simulator, "usage-zero-at-end")
    assert heard.chunks[0]["message"]["usage"]["input_tokens"] == 5
    assert heard.chunks[-2]["usage"]["input_tokens"] == 0


@pytest.mark.parametrize(
    ("model", "types"),
    [
        ("server-tool", ["server_tool_use", "web_search_tool_result", "text"]),
        ("redacted-thinking", ["redacted_thinking", "text"]),
    ],
)
async def test_blocks_of_other_kinds(simulator: Simulator, model, types):
    heard = await ask(simulator, model)
    assert block_types(heard) == types
    starts = [chunk["index"] for chunk in heard.chunks if chunk["type"] == "content_block_start"]
    stops = [chunk["index"] for chunk in heard.chunks if chunk["type"] == "content_block_stop"]
    assert starts == stops == list(range(len(types)))
    content = (await ask(simulator, model, stream=False)).json["content"]
    assert [block["type"] for block in content] == types
    assert content[-1]["text"] == QUESTION


async def test_other_shapes_just_echo(simulator: Simulator):
    for model in (
        "no-event-lines",
        "usage-cache-writes",
        "usage-zero-at-end",
        "server-tool",
        "redacted-thinking",
    ):
        for stream in (True, False):
            heard = await hear(simulator, "/v1/chat/completions", chat(model, stream=stream))
            assert (heard.text if stream else heard.json["choices"][0]["message"]["content"]) == QUESTION


@pytest.mark.parametrize("stream", [True, False])
async def test_an_account_without_credit(simulator: Simulator, stream):
    heard = await ask(simulator, "credit-too-low", stream=stream)
    assert heard.status == 400
    assert heard.json["error"]["type"] == "invalid_request_error"
    assert "credit balance is too low" in heard.json["error"]["message"]
