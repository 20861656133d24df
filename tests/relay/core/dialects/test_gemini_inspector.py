"""What a Gemini stream says, and what of it the client gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.dialects.base import EventKind
from relay.core.dialects.gemini import GEMINI
from tests.relay.core.dialects.gemini_samples import (
    CODE,
    HELLO,
    OVERLOADED,
    STREAM,
    STREAMS,
    THINKING,
    TOOLS,
    TWO,
    ask,
    calling,
    candidate,
    chunk,
    ended,
    events_of,
    frame,
    observed,
    said,
    soft_errors,
)

CONTENT, PREAMBLE, ERROR = EventKind.CONTENT, EventKind.PREAMBLE, EventKind.ERROR
INVALID, COMMENT = EventKind.INVALID, EventKind.COMMENT


@pytest.mark.parametrize("name", STREAMS)
def test_passes_byte_for_byte(name):
    inspector, kinds, out = observed(STREAMS[name])
    assert out == STREAMS[name]
    assert set(kinds) <= {CONTENT, PREAMBLE}
    assert soft_errors(inspector) == []
    assert (inspector.facts.every_choice_finished, inspector.facts.is_whole_at_end) == (True, True)
    assert inspector.closing() == b""


@pytest.mark.parametrize("name", STREAMS)
def test_every_byte_split_tells_the_same(name):
    data = STREAMS[name]
    whole, kinds, out = observed(data)
    for at in range(len(data)):
        found, found_kinds, found_out = observed(data[:at], data[at:])
        assert (found_kinds, found_out) == (kinds, out)
        assert (found.facts.usage, found.facts.finish_reasons) == (
            whole.facts.usage,
            whole.facts.finish_reasons,
        )
        assert found.facts.received.text == whole.facts.received.text


@given(st.lists(st.integers(1, 40), max_size=60))
def test_any_cutting_tells_the_same(sizes):
    pieces, at = [], 0
    for size in sizes:
        pieces.append(TOOLS[at : at + size])
        at += size
    found, _, out = observed(*pieces, TOOLS[at:])
    assert out == TOOLS
    assert (found.facts.tool_call_count, found.facts.usage.output) == (2, 30)


def test_what_is_learnt():
    facts = observed(THINKING)[0].facts
    assert facts.model == "gemini-2.5-flash"
    assert facts.finish_reasons == {0: "STOP"}
    assert (facts.usage.input, facts.usage.output, facts.usage.reasoning) == (7, 47, 41)
    assert facts.received.text == "First, then.12,231"


def test_function_calls_are_counted_and_their_arguments_kept_for_counting():
    inspector, kinds, _ = observed(TOOLS)
    assert inspector.facts.tool_call_count == 2
    assert '{"city": "Oslo"}' in inspector.facts.received.text
    assert kinds == [CONTENT, CONTENT, CONTENT]


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"args": {}}},
        {"functionCall": {"name": "", "args": {}}},
        calling("f", "not an object"),
        calling("f", [1]),
        calling("f", 1),
    ],
)
def test_a_broken_call_is_a_soft_error_and_passes(part):
    inspector, _, out = observed(chunk(candidate(part)) + ended())
    assert soft_errors(inspector) == ["tool_call_invalid"]
    assert out == chunk(candidate(part)) + ended()


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"name": "f"}},
        calling("f", None),
        calling("f", {}),
        {
            "functionCall": {
                "name": "f",
                "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
                "willContinue": True,
            }
        },
        {"functionCall": {}},
    ],
)
def test_calls_without_arguments_or_in_pieces_are_sound(part):
    pieces = part == {"functionCall": {}}
    inspector, _, _ = observed(chunk(candidate(part)) + ended())
    assert soft_errors(inspector) == (["tool_call_invalid"] if pieces else [])


@pytest.mark.parametrize(
    "stream",
    [CODE, chunk(candidate({"text": "x"}, groundingMetadata={"webSearchQueries": ["a"]}))],
)
def test_tools_that_the_upstream_ran_are_noted(stream):
    assert observed(stream)[0].facts.upstream_tool_started
    assert not observed(HELLO)[0].facts.upstream_tool_started


def test_pictures_are_counted_but_not_those_of_thoughts():
    picture = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    sound = {"inlineData": {"mimeType": "audio/L16;codec=pcm", "data": "QUJD"}}
    inspector, kinds, _ = observed(
        chunk(candidate({**picture, "thought": True})) + chunk(candidate(picture, sound)) + ended()
    )
    assert inspector.facts.usage.images == 1
    assert kinds == [CONTENT] * 3


# When an answer is whole.


@pytest.mark.parametrize(
    "reason", ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "LATER"]
)
def test_a_finish_of_any_reason_finishes(reason):
    facts = observed(said("a") + ended(reason))[0].facts
    assert facts.finish_reasons == {0: reason}
    assert facts.is_whole_at_end


@pytest.mark.parametrize(
    "stream", [said("a"), chunk(candidate({"text": ""})), ended("FINISH_REASON_UNSPECIFIED"), ended("")]
)
def test_without_a_finish_it_is_not_whole(stream):
    assert not observed(stream)[0].facts.is_whole_at_end


def test_a_finish_that_is_followed_by_more_was_none():
    """Google's tools: 0xPlaygrounds/rig#2328; imitations: router-for-me/CLIProxyAPI#5651, MartialBE/one-hub#402."""
    assert not observed(ended() + ended() + said("late"))[0].facts.is_whole_at_end
    assert observed(ended() + said("late") + ended())[0].facts.is_whole_at_end
    on_each = ended(text="a") + ended(text="b")
    assert observed(on_each)[0].facts.is_whole_at_end


def test_each_candidate_must_finish():
    both = ask(generationConfig={"candidateCount": 2})
    assert observed(TWO, of=both)[0].facts.finish_reasons == {0: "STOP", 1: "MAX_TOKENS"}
    assert observed(TWO, of=both)[0].facts.is_whole_at_end
    assert not observed(said("one") + ended(), of=both)[0].facts.is_whole_at_end
    assert not observed(said("one") + said("two", 1) + ended())[0].facts.is_whole_at_end


def test_a_blocked_prompt_is_a_whole_answer():
    blocked = frame(
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}
    )
    inspector, kinds, out = observed(blocked)
    assert (kinds, out) == ([CONTENT], blocked)
    assert inspector.facts.finish_reasons == {0: "PROHIBITED_CONTENT"}
    assert inspector.facts.is_whole_at_end
    assert (inspector.facts.usage.input, inspector.facts.usage.output) == (9, 0)


def test_feedback_beside_candidates_blocks_nothing():
    fed = chunk(candidate({"text": "a"}), promptFeedback={"safetyRatings": []})
    assert not observed(fed)[0].facts.is_whole_at_end


# Errors, and what is no chunk.


def test_an_error_is_withheld_and_told():
    inspector, kinds, out = observed(said("a") + OVERLOADED)
    assert kinds == [CONTENT, ERROR]
    assert out == said("a")
    error = inspector.facts.error
    assert (error.message, error.kind, error.status) == ("The model is overloaded.", "UNAVAILABLE", 503)


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"error":"no"}\n\n',
        b'data: {"error":{"code":429,"message":"slow down"}}\n\n',
        b'data: [{"error":{"code":429,"message":"slow down"}}]\n\n',
        b'event: error\ndata: {"message":"no"}\n\n',
        b"event: error\ndata: broken\n\n",
        b'data: {"detail":"Not Found"}\n\n',
        b'data: {"candidates":7,"error":{"message":"x"}}\n\n',
    ],
)
def test_errors_of_other_vendors(data):
    assert observed(data)[1] == [ERROR]


@pytest.mark.parametrize(
    ("data", "kind", "classes"),
    [
        (b'data: {"candidates":[{"con\n\n', INVALID, ["not_json"]),
        (b"data: 7\n\n", INVALID, ["not_json"]),
        (b"data: []\n\n", INVALID, ["not_json"]),
        (b"data: {}\n\n", INVALID, ["unknown_event"]),
        (b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', INVALID, ["unknown_event"]),
        (b"data: [DONE]\n\n", COMMENT, []),
        (b": keepalive\n\n", COMMENT, []),
        (b"id: 7\n\n", COMMENT, []),
    ],
)
def test_what_is_no_chunk_is_withheld(data, kind, classes):
    inspector, kinds, out = observed(data)
    assert (kinds, out, soft_errors(inspector)) == ([kind], b"", classes)


@pytest.mark.parametrize(
    "parts",
    [
        "text", [{"text": 7}], [7], [None], {"text": "x"}, [{"functionCall": "x"}], [{"inlineData": []}],
        [{"text": "\ud83d"}],
    ],
)  # fmt: skip
def test_odd_types_pass_and_never_raise(parts):
    body = {
        "candidates": [{"index": 0.0, "content": {"parts": parts}}],
        "usageMetadata": [],
        "modelVersion": 7,
    }
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    assert observed(data)[2] == data


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: f"data: {text}\n\n".encode()))
def test_nothing_raises(data):
    observed(data, b"\n\n", HELLO)


def test_numbers_of_thousands_of_digits():
    data = b'data: {"candidates":[],"usageMetadata":{"promptTokenCount":' + b"9" * 9000 + b"}}\n\n"
    assert observed(data)[1] == [INVALID]


# Repairs.


@pytest.mark.parametrize(
    "spelt",
    [
        b"data:%b\n\n",
        b": hi\ndata: %b\n\n",
        b"event: message\ndata: %b\n\n",
        b"id: 7\ndata: %b\n\n",
        b"retry: 5\ndata: %b\r\n\r\n",
        b"data: %b\r\r",
    ],
)
def test_frames_are_one_line_of_data(spelt):
    body = said("Hi").removeprefix(b"data: ").strip()
    assert observed(spelt % body)[2] == b"data: " + body + b"\n\n"


def test_data_in_several_lines_becomes_one():
    assert observed(b'data: {"candidates":\ndata: [],\ndata: "modelVersion":"m"}\n\n')[2] == (
        b'data: {"candidates": [], "modelVersion":"m"}\n\n'
    )


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_separators_in_texts_are_escaped(separator):
    """Some clients cut lines there (BerriAI/litellm#30602)."""
    out = observed(said(f"a{separator}b"))[2]
    assert separator.encode() not in out
    assert json.loads(events_of(out)[0].data) == json.loads(events_of(said(f"a{separator}b"))[0].data)


# One JSON array instead of events.


@pytest.mark.parametrize("name", STREAMS)
def test_an_array_holds_the_data_of_all_events(name):
    array = ask(STREAM, "")
    inspector, _, out = observed(b": hi\n\n" + STREAMS[name], of=array)
    whole = json.loads(out + inspector.closing())
    assert whole == [json.loads(event.data) for event in events_of(STREAMS[name])]


def test_an_empty_array():
    assert GEMINI.stream_inspector(ask(STREAM, "")).closing() == b"[]"
