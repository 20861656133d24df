"""A stream made whole, and a whole message made a stream: nothing is lost either way."""

import json

import pytest

from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.dialects.base import AggregationFailed
from relay.core.dialects.pieces import PIECE_CHARS
from tests.relay.core.dialects.anthropic_samples import (
    HELLO,
    OVERLOADED,
    PING,
    SEARCH,
    STOP,
    STREAMS,
    TEXT,
    THINKING,
    TOOLS,
    ask,
    calling,
    closed,
    delta,
    ended,
    events_of,
    frame,
    observed,
    opened,
    part_of_input,
    said,
    started,
)


def aggregated(*data: bytes) -> bytes:
    aggregator = ANTHROPIC.aggregator(ask())
    for event in events_of(*data):
        aggregator.add(event)
    return aggregator.whole()


def message_of(*data: bytes) -> dict:
    return json.loads(aggregated(*data))


def exploded(message: dict) -> bytes:
    return b"".join(ANTHROPIC.whole_to_events(json.dumps(message).encode(), ask()))


def test_text():
    message = message_of(HELLO)
    assert message == {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-20250514",
        "content": [{"type": "text", "text": "Hello! Größe \u2028 😀"}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 25, "output_tokens": 15},
    }  # fmt: skip


def test_tools():
    message = message_of(TOOLS)
    assert message["stop_reason"] == "tool_use"
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert message["content"][1] == {
        "type": "tool_use", "id": "toolu_01", "name": "get_weather",
        "input": {"location": "San Francisco, CA", "unit": "fahrenheit"},
    }  # fmt: skip
    assert message["usage"]["output_tokens"] == 89
    assert message["usage"]["input_tokens"] == 472


def test_thinking_keeps_its_signature_and_what_is_encrypted():
    thinking, redacted, text = message_of(THINKING)["content"]
    assert thinking["thinking"].endswith("453 = 400 + 50 + 3")
    assert thinking["signature"] == "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk"
    assert redacted == {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    assert text["text"] == "27 * 453 = 12,231"


def test_citations_and_what_the_upstream_searched():
    message = message_of(SEARCH)
    search, result, text = message["content"]
    assert search["input"] == {"query": "weather NYC"}
    assert result["content"][0]["url"] == "https://example.org/"
    assert [citation["cited_text"] for citation in text["citations"]] == ["It rains."]
    assert message["usage"]["server_tool_use"] == {"web_search_requests": 1}
    assert message["usage"]["input_tokens"] == 10682


@pytest.mark.parametrize("name", STREAMS)
def test_a_message_survives_both_ways(name):
    message = message_of(STREAMS[name])
    stream = exploded(message)
    assert message_of(stream) == message
    inspector, kinds, out = observed(stream)
    direct = observed(STREAMS[name])[0].facts
    assert out == stream
    assert (inspector.facts.usage, inspector.facts.finish_reasons) == (direct.usage, direct.finish_reasons)
    assert kinds.count(kinds[-1]) == 1


def test_members_of_the_end_are_told_at_the_end_only():
    message = message_of(HELLO) | {"stop_sequence": "X", "container": {"id": "c"}, "vendor": [1.50]}
    first, *_, last, _ = events_of(exploded(message))
    opening = json.loads(first.data)["message"]
    assert (opening["stop_reason"], opening["stop_sequence"], opening["container"]) == (None, None, None)
    assert opening["content"] == []
    assert opening["usage"]["output_tokens"] == 0
    assert json.loads(last.data)["delta"] == {
        "stop_reason": "end_turn", "stop_sequence": "X", "container": {"id": "c"},
    }  # fmt: skip
    assert message_of(exploded(message)) == message


def test_a_long_text_comes_in_pieces():
    message = message_of(HELLO)
    message["content"][0]["text"] = "word " * 2000
    deltas = [json.loads(event.data) for event in events_of(exploded(message)) if "delta" in event.event]
    assert all(len(item["delta"].get("text", "")) <= PIECE_CHARS for item in deltas)
    assert len(deltas) > 10
    assert message_of(exploded(message)) == message


def test_the_end_of_members_beside_the_delta_is_kept():
    end = frame(
        "message_delta", delta={"stop_reason": "end_turn"}, usage={}, context_management={"applied_edits": []}
    )
    assert message_of(started(), end, STOP)["context_management"] == {"applied_edits": []}


def test_a_summary_of_the_context():
    stream = started() + opened(0, type="compaction", content=None) + closed() + ended("compaction") + STOP
    summed = stream.replace(
        closed(), delta(0, "compaction_delta", content="so far", encrypted_content="E") + closed()
    )
    assert message_of(summed)["content"] == [
        {"type": "compaction", "content": "so far", "encrypted_content": "E"}
    ]


def test_numbers_in_a_tools_input_keep_their_bytes():
    body = aggregated(
        started(), calling(['{"big": 12345678901234567890123, "f": 1.', '10, "e": 1E400}']), ended(), STOP
    )
    assert b'"input":{"big": 12345678901234567890123, "f": 1.10, "e": 1E400}' in body


def test_halves_of_a_surrogate_pair_join():
    pair = [said("#"), said("%")]
    stream = b"".join(
        [started(), TEXT, *pair, closed(), calling(['{"a": "\\ud83d', '\\ude00"}'], 1), ended(), STOP]
    )
    stream = stream.replace(b'"#"', b'"\\ud83d"').replace(b'"%"', b'"\\ude00"')
    message = message_of(stream)
    assert (message["content"][0]["text"], message["content"][1]["input"]) == ("😀", {"a": "😀"})


def test_a_tool_without_parameters():
    assert message_of(started(), calling([]), ended("tool_use"), STOP)["content"][0]["input"] == {}
    assert message_of(started(), calling(["", " "]), ended("tool_use"), STOP)["content"][0]["input"] == {}


def test_an_input_that_came_with_the_start_of_its_block():
    message = message_of(started(), calling([], input={"city": "Oslo"}), ended("tool_use"), STOP)
    assert message["content"][0]["input"] == {"city": "Oslo"}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_a_call_that_the_limit_cut_is_left_out(reason):
    """There is no half input: an agent would run it."""
    message = message_of(started(), TEXT, said("x"), closed(), calling(['{"a": '], 1), ended(reason), STOP)
    assert [block["type"] for block in message["content"]] == ["text"]
    assert message["stop_reason"] == reason


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"", "incomplete"),
        (PING + STOP, "incomplete"),
        (started() + TEXT + said("x"), "incomplete"),
        (started() + TEXT + said("x") + closed() + STOP, "incomplete"),
        (started() + TEXT + said("x") + closed() + ended(None) + STOP, "incomplete"),
        (TEXT + said("x") + closed() + ended() + STOP, "incomplete"),
        (started() + TEXT + said("x") + OVERLOADED, "upstream_error_event"),
        (started() + b"event: error\ndata: it broke\n\n", "upstream_error_event"),
        (started() + b"data: {\n\n" + ended(), "not_json"),
        (started() + said("x", 3) + ended(), "unopened_block"),
        (started() + TEXT + delta(0, "a_delta_to_come", x=1) + ended(), "unknown_delta"),
        (started() + calling(['{"a": ']) + ended("tool_use"), "tool_call_invalid"),
        (started() + calling(["[1]"]) + ended("tool_use"), "tool_call_invalid"),
        (started() + calling(['{"a": NaN}']) + ended("tool_use"), "tool_call_invalid"),
        (started() + calling(["[" * 5000]) + ended("tool_use"), "tool_call_invalid"),
    ],
)
def test_what_gives_no_answer(stream, reason):
    with pytest.raises(AggregationFailed, match=reason):
        aggregated(stream)


def test_order_is_that_of_the_indices():
    stream = b"".join(
        [started(), opened(1, type="text", text="b"), opened(0, type="text", text="a"), ended(), STOP]
    )
    assert [block["text"] for block in message_of(stream)["content"]] == ["a", "b"]


def test_a_message_of_odd_parts_explodes():
    message = {"content": [{"type": "text", "text": None}, {}, "x", {"type": "tool_use", "input": None}]}
    assert message_of(exploded(message) + ended())["content"][0] == {"type": "text", "text": ""}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"content":"x"}', b'{"content":null}', b"<html>"])
def test_what_is_no_message_does_not_explode(body):
    with pytest.raises(ValueError, match=r"."):
        ANTHROPIC.whole_to_events(body, ask())


def test_end_turn_with_a_tool_call_explodes_as_tool_use():
    message = message_of(started(), calling(['{"a": 1}']), ended("end_turn"), STOP)
    assert message_of(exploded(message))["stop_reason"] == "tool_use"


def test_a_part_of_an_input_without_its_block_is_no_answer():
    with pytest.raises(AggregationFailed, match="unopened_block"):
        aggregated(started(), part_of_input("{}", 4), ended())
