"""The closed list of repairs: each with the reason for it, and what it must leave alone."""

import pytest

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import EventKind
from relay.core.sse import DONE
from tests.relay.core.dialects.openai_chat_samples import (
    USAGE,
    ask,
    ask_with_usage,
    call,
    calls,
    chunk,
    frame,
    observe,
    payloads,
    relayed,
)

USAGE_CHUNK = {**chunk(), "choices": [], "usage": USAGE}


@pytest.mark.parametrize(
    ("sent", "out"),
    [
        (b"event: ping\n\n", b""),
        (b"data:\n\n", b""),
        (b"id: 1\n\n", b""),
        (b"retry: 100\n\n", b""),
        (b": hello\n\n", b": hello\n\n"),
        (b":\r\n\r\n", b":\r\n\r\n"),
        (b": hello\nevent: ping\n\n", b": hello\n\n"),
        (b": hello\r\nid: 3\r\n: you\r\n\r\n", b": hello\n: you\n\n"),
    ],
)
def test_frames_without_data_are_dropped_comments_pass(sent, out):
    """The official Python SDK parses the data of every frame and raises when there is none."""
    assert relayed(sent)[1] == out


def test_id_and_retry_lines_are_left_out():
    """With an id seen, the Python SDK takes each later comment for an event and raises on it."""
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n'
    sent = b"id: 7\n" + body + b"retry: 1000\n\n"
    second = b": hi\nid:9\n" + body + b"\n"
    _, out = relayed(sent, second, b": keepalive\n\n", b"id: 8\ndata: [DONE]\n\n")
    assert out == body + b"\n" + b": hi\n" + body + b"\n" + b": keepalive\n\n" + b"data: [DONE]\n\n"


def test_id_lines_are_left_out_of_repaired_events_too():
    _, out = relayed(b'id: 7\n: c\nevent: x\ndata: {"choices":null}\n\n')
    assert out == b': c\nevent: x\ndata: {"choices":[]}\n\n'


def test_a_usage_chunk_not_asked_for_is_withheld():
    """nguyenphutrong/quotio#460: clients that index `choices[0]` crash on it; its numbers are kept."""
    inspector = OPENAI_CHAT.stream_inspector(ask())
    assert observe(inspector, USAGE_CHUNK) == [(EventKind.CONTENT, b"")]
    assert inspector.facts.usage.input == 7


def test_a_usage_chunk_asked_for_passes_untouched():
    assert relayed(USAGE_CHUNK, asked=ask_with_usage())[1] == frame(USAGE_CHUNK)


def test_usage_beside_choices_goes_and_the_choices_stay():
    sent = b'data: {"a":1.0, "usage":{"prompt_tokens":7},"choices":[{"index":0,"delta":{"content":"\\u00e9"} }]}\n\n'
    assert relayed(sent)[1] == b'data: {"a":1.0,"choices":[{"index":0,"delta":{"content":"\\u00e9"} }]}\n\n'
    assert relayed(sent, asked=ask_with_usage())[1] == sent


def test_a_null_usage_passes():
    """OpenAI puts it on each chunk of a stream with usage; to rewrite them all would help nobody."""
    sent = chunk({"content": "a"}, usage=None)
    assert relayed(sent)[1] == frame(sent)


@pytest.mark.parametrize("choices", [b'"choices":null,', b""])
def test_missing_choices_become_an_empty_list(choices):
    """cline/cline#1786, #8384: clients iterate over `choices` and crash on null."""
    _, out = relayed(b"data: {" + choices + b'"usage":{"prompt_tokens":1e0}}\n\n', asked=ask_with_usage())
    assert payloads(out) == [{"choices": [], "usage": {"prompt_tokens": 1}}]
    assert b"1e0" in out


def test_an_empty_finish_reason_becomes_null():
    """ollama/ollama#4357: clients stop at the first finish reason that is not null."""
    inspector, out = relayed(chunk({"content": "a"}, ""), chunk({"content": "b"}, ""), chunk({}, "stop"))
    assert [event["choices"][0]["finish_reason"] for event in payloads(out)] == [None, None, "stop"]
    assert inspector.facts.finish_reasons == {0: "stop"}


def numbers(out: bytes) -> list[list[int]]:
    """The indices of each event's tool calls, as the client got them."""
    return [
        [part["index"] for part in choice["delta"]["tool_calls"]]
        for event in payloads(out)
        for choice in event["choices"]
        if "tool_calls" in choice["delta"]
    ]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        # ollama/ollama#15457: index 0 for every call of a parallel batch
        ([call(0, "a", "f", "{}"), call(0, "b", "g", "{}"), call(0, "c", "h", "{}")], [0, 1, 2]),
        # Mistral: no index at all
        ([call(None, "a", "f", "{}"), call(None, "b", "g", "{}")], [0, 1]),
        # shared index, arguments in pieces without id: they belong to the last call
        (
            [
                call(0, "a", "f", "{"),
                call(0, None, None, "}"),
                call(0, "b", "g", "{"),
                call(0, None, None, "}"),
            ],
            [0, 0, 1, 1],
        ),
        # no index, pieces without id
        ([call(None, "a", "f", "{"), call(None, None, None, "}"), call(None, "b", "g", "{}")], [0, 0, 1]),
        # the id repeated on every piece, interleaved
        (
            [
                call(0, "a", "f", "{"),
                call(0, "b", "g", "{"),
                call(0, "a", None, "}"),
                call(0, "b", None, "}"),
            ],
            [0, 1, 0, 1],
        ),
        # neither index nor id: a name starts a call
        ([call(None, None, "f", "{}"), call(None, None, "g", "{}")], [0, 1]),
        # index shared and no id: a new name, or a name after whole arguments, starts a call
        ([call(0, None, "f", "{}"), call(0, None, "g", "{}")], [0, 1]),
        ([call(0, None, "f", '{"a":1}'), call(0, None, "f", '{"a":2}')], [0, 1]),
        # negative
        ([call(-1, "a", "f", "{}"), call(-1, "b", "g", "{}")], [0, 1]),
        # a float is a number of another spelling
        ([call(0.0, "a", "f", "{}"), call(1.0, "b", "g", "{}")], [0, 1]),
    ],
)
def test_parallel_tool_calls_are_numbered_in_order_of_appearance(fragments, expected):
    """Clients assemble by index: calls that share one are merged into one with broken arguments."""
    inspector, out = relayed(*map(calls, fragments), chunk({}, "tool_calls"))
    assert [number for [number] in numbers(out)] == expected
    assert inspector.facts.soft_error_count == 0


def test_parallel_calls_within_one_event_are_numbered():
    _, out = relayed(calls(call(0, "a", "f", "{}"), call(0, "b", "g", "{}")))
    assert numbers(out) == [[0, 1]]


def test_well_numbered_tool_calls_pass_byte_for_byte():
    frames = [
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}\n\n',
    ]
    assert relayed(*frames)[1] == b"".join(frames)


def test_renumbering_keeps_all_other_bytes():
    sent = (
        b'data: {"a":1.50,"choices":[{"index":0,"x":1e1,"delta":{"tool_calls":'
        b'[{"id":"a","function":{"name":"f","arguments":"{}"},"extra":{"s":"\\u00e9"}}]}}]}\n\n'
    )
    expected = sent.replace(b'[{"id"', b'[{"index":0,"id"')
    assert relayed(sent)[1] == expected


@pytest.mark.parametrize(
    ("fragments", "finish", "expected"),
    [
        ([call(0, "a", "f", "{}")], "stop", "tool_calls"),
        ([call(0, "a", "f", "")], "stop", "tool_calls"),
        ([call(0, "a", "f", '{"a":')], "stop", "stop"),
        ([call(0, "a", None, "{}")], "stop", "stop"),
        ([call(0, "a", "f", "{}"), call(1, "b", "g", "{")], "stop", "stop"),
        ([call(0, "a", "f", "{}")], "length", "length"),
        ([], "stop", "stop"),
    ],
)
def test_stop_after_whole_tool_calls_becomes_tool_calls(fragments, finish, expected):
    """googleapis/python-genai#2868, vercel/ai#5184: agents look at it to decide whether to run them."""
    inspector, out = relayed(*map(calls, fragments), chunk({}, finish))
    assert payloads(out)[-1]["choices"][0]["finish_reason"] == expected
    assert inspector.facts.finish_reasons == {0: expected}


def test_stop_in_the_same_event_as_the_call_is_repaired_too():
    sent = chunk({"tool_calls": [call(0, "a", "f", "{}")]}, "stop")
    assert payloads(relayed(sent)[1])[0]["choices"][0]["finish_reason"] == "tool_calls"


def test_tool_calls_of_one_choice_do_not_change_another():
    _, out = relayed(
        calls(call(0, "a", "f", "{}")), chunk({}, "stop", index=1), chunk({}, "stop", index=0), asked=ask(n=2)
    )
    assert [event["choices"][0]["finish_reason"] for event in payloads(out)] == [None, "stop", "tool_calls"]


def test_a_second_done_is_dropped():
    assert relayed(chunk({}, "stop"), "[DONE]", "[DONE]")[1] == frame(chunk({}, "stop")) + DONE


def test_a_missing_done_is_added_only_when_every_choice_finished():
    """An unfinished answer must look unfinished."""
    inspector, _ = relayed(chunk({"content": "a"}), chunk({}, "stop"))
    assert inspector.closing() == DONE
    assert not inspector.facts.terminal_seen
    for stream in ([chunk({"content": "a"})], [chunk({}, "stop"), chunk({"content": "b"}, index=1)], []):
        assert relayed(*stream)[0].closing() == b""
    assert relayed(chunk({}, "stop"), "[DONE]")[0].closing() == b""


def test_a_repair_that_cannot_be_made_leaves_the_event_as_it_came():
    sent = '{"choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":""}]}'
    inspector, out = relayed(sent)
    assert out == frame(sent)
    assert [error.error_class for error in inspector.facts.soft_errors] == ["repair_failed"]
