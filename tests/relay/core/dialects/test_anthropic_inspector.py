"""What a message stream says, and which of its bytes change."""

import pytest

from relay.core.dialects.base import EventKind
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
    soft_errors,
    started,
)

CONTENT, PREAMBLE = EventKind.CONTENT, EventKind.PREAMBLE


def seen(inspector):
    facts = inspector.facts
    return (
        facts.usage, facts.finish_reasons, facts.every_choice_finished, facts.terminal_seen, facts.model,
        facts.received.text, facts.tool_call_count, facts.upstream_tool_started,
        soft_errors(inspector),
    )  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_every_split_of_a_stream_passes_byte_for_byte_and_says_the_same(name, newline):
    stream = STREAMS[name].replace(b"\n", newline)
    whole, kinds, out = observed(stream)
    assert out == stream
    assert kinds[-1] is EventKind.TERMINAL
    assert soft_errors(whole) == []
    for at in range(1, len(stream)):
        inspector, split_kinds, split_out = observed(stream[:at], stream[at:])
        assert split_kinds == kinds
        if stream[at - 1 : at + 1] == b"\r\n":  # an event need not wait to learn whether a LF follows
            assert events_of(split_out) == events_of(stream)
        else:
            assert split_out == stream
        assert seen(inspector) == seen(whole)


def test_one_byte_reads():
    inspector, kinds, out = observed(*(TOOLS[at : at + 1] for at in range(len(TOOLS))))
    assert out == TOOLS
    assert seen(inspector) == seen(observed(TOOLS)[0])
    assert kinds == observed(TOOLS)[1]


def test_facts_of_text():
    facts = observed(HELLO)[0].facts
    text = "Hello! Größe \u2028 😀"
    assert (facts.model, facts.finish_reasons) == ("claude-opus-4-20250514", {0: "end_turn"})
    assert facts.received.text == text
    assert (facts.usage.input, facts.usage.output) == (25, 15)
    assert facts.every_choice_finished
    assert facts.terminal_seen
    assert not facts.upstream_tool_started


def test_facts_of_tools():
    facts = observed(TOOLS)[0].facts
    assert facts.finish_reasons == {0: "tool_use"}
    assert facts.tool_call_count == 2
    assert '"San Francisco, CA"' in facts.received.text


def test_facts_of_thinking():
    facts = observed(THINKING)[0].facts
    assert (facts.usage.output, facts.usage.reasoning) == (60, 41)
    assert facts.received.text.startswith("Let me solve this")


def test_facts_of_a_search_at_the_upstream():
    facts = observed(SEARCH)[0].facts
    assert facts.upstream_tool_started
    assert facts.tool_call_count == 0
    assert facts.usage.input == 10682, "counts of the end replace those of the start"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (started(), PREAMBLE),
        (PING, PREAMBLE),
        (TEXT, PREAMBLE),
        (opened(0, type="thinking", thinking="", signature=""), PREAMBLE),
        (opened(0, type="text", text="Hi"), CONTENT),
        (opened(0, type="redacted_thinking", data="x"), CONTENT),
        (opened(0, type="tool_use", id="t", name="n", input={}), CONTENT),
        (opened(0, type="a_block_to_come", value=1), CONTENT),
        (said(""), PREAMBLE),
        (said("x"), CONTENT),
        (delta(0, "thinking_delta", thinking=""), PREAMBLE),
        (delta(0, "signature_delta", signature="x"), CONTENT),
        (delta(0, "citations_delta", citation={}), CONTENT),
        (delta(0, "a_delta_to_come", value=1), CONTENT),
        (part_of_input(""), PREAMBLE),
        (part_of_input("{"), CONTENT),
        (closed(), PREAMBLE),
        (ended(None), CONTENT),
        (ended(), CONTENT),
        (STOP, EventKind.TERMINAL),
        (frame("an_event_to_come", index=0), PREAMBLE),
        (OVERLOADED, EventKind.ERROR),
        (b": keepalive\n\n", EventKind.COMMENT),
        (b"data: [DONE]\n\n", EventKind.COMMENT),
        (b'event: content_block_delta\ndata: {"type":"content_bl\n\n', EventKind.INVALID),
        (b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', EventKind.INVALID),
        (b"data: 5\n\n", EventKind.INVALID),
        (b'event: content_block_stop\ndata: {"index":0}\n\n', PREAMBLE),
    ],
)  # fmt: skip
def test_kinds(event, kind):
    assert observed(event)[1] == [kind]


def test_unknown_events_and_blocks_pass_byte_for_byte():
    stream = b"".join(
        [started(), frame("an_event_to_come", x=[1.50]), opened(0, type="new", v=1e2), closed(), ended()]
    )
    inspector, _, out = observed(stream)
    assert out == stream
    assert inspector.facts.every_choice_finished


@pytest.mark.parametrize(
    ("calls", "errors"),
    [
        (calling(['{"a": 1}']), []),
        (calling([]), []),
        (calling([""]), []),
        (calling([], input={"a": 1}), []),
        (calling(['{"a": ']), ["tool_call_invalid"]),
        (calling(["x"]), ["tool_call_invalid"]),
        (calling(['{"a": 1}'], name=""), ["tool_call_invalid"]),
        (calling(['{"a": ']) + calling(['{"b":'], 1), ["tool_call_invalid"] * 2),
        (calling(['{"a": 1']).removesuffix(closed()), ["tool_call_invalid"]),
        (calling(['{"a": 1'], type="server_tool_use"), []),
    ],
)
def test_tool_input_is_checked_once_it_should_be_whole(calls, errors):
    inspector, _, out = observed(started(), calls, ended("tool_use"), STOP)
    assert soft_errors(inspector) == errors
    assert out == started() + calls + ended("tool_use") + STOP, "told, and passed all the same"
    inspector.closing()
    assert soft_errors(inspector) == errors


def test_tool_input_that_breaks_off_is_told_at_the_end():
    inspector, _, _ = observed(
        started(), opened(0, type="tool_use", id="t", name="n", input={}), part_of_input("{")
    )
    assert soft_errors(inspector) == []
    assert inspector.closing() == b""
    assert soft_errors(inspector) == ["tool_call_invalid"]


def test_an_input_that_comes_with_the_start_of_its_block_counts_as_received():
    """Yeachan-Heo/gajae-code#1895"""
    facts = observed(started(), calling([], input={"city": "Oslo"}))[0].facts
    assert "Oslo" in facts.received.text


def test_halves_of_a_surrogate_pair_pass():
    """Each half is JSON by its grammar; clients join them."""
    halves = [
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n'
        % half
        for half in (b"\\ud83d", b"\\ude00")
    ]
    _, kinds, out = observed(*halves)
    assert out == b"".join(halves)
    assert kinds == [CONTENT, CONTENT]
