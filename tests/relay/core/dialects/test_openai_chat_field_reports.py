"""Faults that broke real users of gateways, each with the public thread it is known from."""

import json

import pytest

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import AggregationFailed, EventKind
from relay.core.errors import Refusal
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import (
    ask,
    ask_with_usage,
    call,
    calls,
    chunk,
    events_of,
    frame,
    kinds,
    observe,
    payloads,
    relayed,
)


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c"])
def test_unicode_line_ends_within_json_cut_nothing(odd):
    """florimondmanca/httpx-sse#34, Soju06/codex-lb#1010."""
    text = json.dumps(chunk({"content": f"a{odd}b"}), ensure_ascii=False)
    usage = {**chunk(), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    inspector, _ = relayed(text, chunk({}, "stop"), usage, "[DONE]")
    facts = inspector.facts
    assert (facts.terminal_seen, facts.soft_error_count) == (True, 0)
    assert facts.usage == TokenUsage(input=1, output=2)


def test_the_space_after_the_colon_is_optional():
    """openai/openai-python#498, lidge-jun/opencodex#1170, tashfeenahmed/freellmapi#1087."""
    frames = [
        b'data:{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
        b"data:[DONE]\n\n",
    ]
    inspector, out = relayed(*frames)
    assert inspector.facts.terminal_seen
    assert out == b"".join(frames)


def test_a_broken_frame_in_mid_stream_is_not_relayed_and_the_stream_goes_on():
    """zai-org/GLM-5#66: truncated JSON, with the next event's `data:` glued to it."""
    glued = b'data: {"choices":[{"delta":{"content":"brodata: {"choices":[{"delta":{"content":"x"}}]}\n\n'
    first, last = chunk({"content": "a"}), chunk({"content": "b"})
    inspector, out = relayed(first, glued, last)
    assert out == frame(first) + frame(last)
    assert [error.error_class for error in inspector.facts.soft_errors] == ["not_json"]


@pytest.mark.parametrize("choices", [{"choices": None}, {}])
def test_a_usage_chunk_without_choices(choices):
    """cline/cline#1786, cline/cline#8384, spoon-core#179: `[]`, and only to clients that asked for usage."""
    sent = {**choices, "usage": {"prompt_tokens": 5, "completion_tokens": 6}}
    inspector, out = relayed(sent, asked=ask_with_usage())
    assert payloads(out) == [{"choices": [], "usage": sent["usage"]}]
    assert inspector.facts.usage == TokenUsage(input=5, output=6)
    assert relayed(sent)[1] == b""


def test_azures_prompt_filter_chunk_is_neither_an_error_nor_the_source_of_the_model():
    """pydantic/pydantic-ai#164, cli-mentat#429, TabbyML/tabby#3871."""
    sent = {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "azure",
        "object": "",
        "prompt_filter_results": [{}],
    }
    inspector = OPENAI_CHAT.stream_inspector(ask())
    [result, _] = observe(inspector, sent, chunk({"content": "a"}))
    assert result == (EventKind.PREAMBLE, frame(sent))
    assert inspector.facts.model == "gpt-4o-2024-08-06"

    aggregator = OPENAI_CHAT.aggregator(ask())
    for event in events_of(sent, chunk({"content": "a"}), chunk({}, "stop")):
        aggregator.add(event)
    whole = json.loads(aggregator.whole())
    assert (whole["id"], whole["model"]) == ("chatcmpl-1", "gpt-4o-2024-08-06")


def test_an_empty_finish_reason_on_every_chunk_ends_nothing():
    """ollama/ollama#4357."""
    inspector, out = relayed(chunk({"content": "a"}, ""), chunk({"content": "b"}, ""))
    assert inspector.facts.finish_reasons == {}
    assert not inspector.facts.every_choice_finished
    assert b'""' not in out


@pytest.mark.parametrize("delta", [{}, {"content": None}, {"content": ""}])
def test_absent_null_and_empty_content_mean_the_same_and_pass_as_they_came(delta):
    """cline/cline#12132."""
    sent = chunk({"role": "assistant", **delta})
    inspector = OPENAI_CHAT.stream_inspector(ask())
    assert observe(inspector, sent) == [(EventKind.PREAMBLE, frame(sent))]


def test_an_anthropic_error_event_becomes_an_error_without_done():
    """Portkey-AI/gateway#722, envoyproxy/ai-gateway#2697."""
    sent = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    inspector, out = relayed(chunk({"content": "a"}), sent)
    assert out == frame(chunk({"content": "a"}))
    assert (inspector.facts.error.kind, inspector.facts.error.message) == ("overloaded_error", "Overloaded")
    assert inspector.closing() == b""
    told = OPENAI_CHAT.error_event(Refusal(502, "Overloaded", kind="api_error"), "req-1")
    assert payloads(told)[0]["error"]["message"] == "Overloaded"
    assert b"[DONE]" not in told


def test_a_cut_stream_never_aggregates_to_a_short_answer():
    """Wei-Shaw/sub2api#5800: nothing was sent yet, so the attempt fails and another may follow."""
    aggregator = OPENAI_CHAT.aggregator(ask(stream=False))
    for event in events_of(chunk({"role": "assistant"}), chunk({"content": "half an ans"})):
        aggregator.add(event)
    with pytest.raises(AggregationFailed, match="incomplete"):
        aggregator.whole()


def test_a_stream_for_a_plain_request_aggregates():
    """BerriAI/litellm#25766, headroom#2613."""
    aggregator = OPENAI_CHAT.aggregator(ask(stream=False))
    for event in events_of(chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"), "[DONE]"):
        aggregator.add(event)
    whole = json.loads(aggregator.whole())
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "ab"}


def test_structured_deltas_survive():
    """Nayjest/lm-proxy#90: a relay that rebuilds chunks from their text loses tool calls."""
    stream = [calls(call(0, "a", "f", "")), calls(call(0, None, None, '{"x":1}')), chunk({}, "tool_calls")]
    inspector, out = relayed(*stream, "[DONE]")
    assert out == b"".join(map(frame, [*stream, "[DONE]"]))
    assert inspector.facts.finish_reasons == {0: "tool_calls"}


def test_tool_calls_without_index_are_numbered_from_0():
    """Mistral's stream shape: two parallel calls without `index`."""
    _, out = relayed(calls(call(None, "a", "f", "{}"), call(None, "b", "g", "{}")))
    assert [part["index"] for part in payloads(out)[0]["choices"][0]["delta"]["tool_calls"]] == [0, 1]


def test_cumulative_usage_is_not_added_up():
    """songquanpeng/one-api#415, open-webui#29064, griptape#2275: usage on each chunk."""
    stream = [
        chunk({"content": "a"}, usage={"prompt_tokens": 10, "completion_tokens": number})
        for number in (1, 2, 3)
    ]
    inspector, out = relayed(*stream, chunk({}, "stop"))
    assert inspector.facts.usage == TokenUsage(input=10, output=3)
    assert b"usage" not in out


def test_usage_asked_for_on_the_clients_behalf_does_not_reach_it():
    """control-layer#701, danny-avila/LibreChat#4099 (ask anyway); nguyenphutrong/quotio#460 (and hide it)."""
    asked = ask()
    body = OPENAI_CHAT.build_request(asked, model="gpt-4o", stream=True, request_usage=True, overrides={})
    assert json.loads(body)["stream_options"] == {"include_usage": True}
    usage = {**chunk(), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    inspector, out = relayed(chunk({"content": "a"}), chunk({}, "stop"), usage, "[DONE]", asked=asked)
    assert inspector.facts.usage.is_complete
    assert all(event == "[DONE]" or event["choices"] for event in payloads(out))


def test_halves_of_an_emoji_in_two_events_pass():
    """Escaped halves of a surrogate pair are JSON by its grammar, and clients join them."""
    stream = [json.dumps(chunk({"content": half})) for half in ("\ud83d", "\ude00")]
    inspector = OPENAI_CHAT.stream_inspector(ask())
    results = observe(inspector, *stream)
    assert kinds(results) == [EventKind.CONTENT, EventKind.CONTENT]
    assert b"".join(out for _, out in results) == b"".join(map(frame, stream))
    aggregator = OPENAI_CHAT.aggregator(ask())
    for event in events_of(*stream, chunk({}, "stop")):
        aggregator.add(event)
    assert json.loads(aggregator.whole())["choices"][0]["message"]["content"] == "😀"
