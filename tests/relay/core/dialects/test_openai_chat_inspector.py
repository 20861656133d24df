"""What each event of an OpenAI-shaped stream means, and what the inspector learns from it."""

import json

import pytest

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import EventKind
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import (
    USAGE,
    ask,
    ask_with_usage,
    call,
    calls,
    chunk,
    events_of,
    frame,
    kinds,
    observe,
    relayed,
)

CONTENT, PREAMBLE, ERROR = EventKind.CONTENT, EventKind.PREAMBLE, EventKind.ERROR
TERMINAL, INVALID, COMMENT = EventKind.TERMINAL, EventKind.INVALID, EventKind.COMMENT

FILTER_CHUNK = {
    "id": "",
    "model": "",
    "object": "",
    "created": 0,
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0}],
}


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (chunk({"content": "Hi"}), CONTENT),
        (chunk({"role": "assistant", "content": "Hi"}), CONTENT),
        (chunk({"reasoning_content": "Hm"}), CONTENT),
        (chunk({"reasoning": "Hm"}), CONTENT),
        (chunk({"refusal": "No"}), CONTENT),
        (chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}), CONTENT),
        (chunk({"audio": {"id": "a", "data": "AAAA"}}), CONTENT),
        (chunk({"images": [{"type": "image_url"}]}), CONTENT),
        (calls(call(0, "c1", "f", "")), CONTENT),
        (chunk({"function_call": {"name": "f", "arguments": "{"}}), CONTENT),
        (chunk({}, "stop"), CONTENT),
        ({"choices": [{"index": 0, "text": "Hi", "finish_reason": None}]}, CONTENT),
        ({**chunk(), "choices": [], "usage": USAGE}, CONTENT),
        (chunk({"role": "assistant"}), PREAMBLE),
        (chunk({"role": "assistant", "content": ""}), PREAMBLE),
        (chunk({"role": "assistant", "content": None, "refusal": None, "tool_calls": []}), PREAMBLE),
        (chunk({}), PREAMBLE),
        (chunk(None, ""), PREAMBLE),
        ({"choices": [{"index": 0, "delta": None}]}, PREAMBLE),
        (FILTER_CHUNK, PREAMBLE),
        ({"choices": [], "usage": None}, PREAMBLE),
        ({"object": "chat.completion.chunk"}, PREAMBLE),
        ({"error": {"message": "overloaded"}}, ERROR),
        ({"error": "overloaded"}, ERROR),
        ({"detail": "Not authenticated"}, ERROR),
        ({"object": "error", "message": "no", "code": 400}, ERROR),
        ({**chunk({"content": "x"}), "error": {"message": "no", "code": 502}}, ERROR),
        ({**chunk({"content": "x"}), "error": None}, CONTENT),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": None}, ERROR),
        (
            b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
            ERROR,
        ),
        (b'event: error\ndata: {"message":"x"}\n\n', ERROR),
        (b"event: error\ndata: overloaded\n\n", ERROR),
        ('{"choices":[{"delta":{"content":"x', INVALID),
        ('{"choices":[]}{"choices":[]}', INVALID),
        ('{"choices":[{"logprobs":NaN}]}', INVALID),
        ("hello", INVALID),
        ("[]", INVALID),
        ("7", INVALID),
        ("null", INVALID),
        ("<html>", INVALID),
        (b"data: [DONE]\n\n", TERMINAL),
        (b"data:[DONE]\n\n", TERMINAL),
        (b": keepalive\n\n", COMMENT),
        (b"event: ping\n\n", COMMENT),
        (b"event: error\n\n", COMMENT),
        (b"data:\n\n", COMMENT),
        (b"id: 7\nretry: 10\n\n", COMMENT),
    ],
)
def test_kind_of_one_event(sent, kind):
    inspector = OPENAI_CHAT.stream_inspector(ask())
    assert kinds(observe(inspector, sent)) == [kind]


def test_ordinary_events_pass_byte_for_byte():
    frames = [
        b'data: {"id":"x", "choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
        b': upstream says hello\ndata:{"choices":[ {"index":0, "delta":{"content":"h\\u00e9"},"finish_reason":null}]}\r\n\r\n',
        b'event: chunk\ndata: {"choices":[{"index":0,"delta":{"content":"\xe2\x80\xa8"},"n":1.0}]}\n\n',
        b": keepalive\n\n",
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x":1e2}\n\n',
        b"data: [DONE]\n\n",
    ]
    inspector, out = relayed(*frames)
    assert out == b"".join(frames)
    assert inspector.facts.soft_error_count == 0


def test_what_cannot_be_told_is_withheld():
    _, out = relayed({"error": {"message": "key sk-secret"}}, "not json", b"event: ping\n\n")
    assert out == b""


def test_facts_of_a_plain_stream():
    inspector, _ = relayed(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hello"}),
        chunk({"content": " wörld"}),
        chunk({}, "stop"),
        {**chunk(), "choices": [], "usage": USAGE},
        "[DONE]",
    )
    facts = inspector.facts
    assert facts.model == "gpt-4o-2024-08-06"
    assert facts.finish_reasons == {0: "stop"}
    assert facts.usage == TokenUsage(input=7, output=3)
    assert facts.received.text == "Hello wörld"
    assert (facts.every_choice_finished, facts.terminal_seen, facts.error) == (True, True, None)
    assert inspector.closing() == b""


def test_text_reasoning_refusal_and_arguments_are_kept_for_counting():
    inspector, _ = relayed(
        chunk({"content": "é"}),
        chunk({"reasoning_content": "ab"}),
        chunk({"reasoning": "cd", "reasoning_content": "cd"}),  # one text under two names
        chunk({"refusal": "no"}),
        calls(call(0, "c", "name", '{"a":')),
        calls(call(0, None, None, "1}")),
        chunk({"function_call": {"arguments": "{}"}}),
    )
    assert inspector.facts.received.text == 'éabcdno{"a":1}{}'


def test_every_choice_is_waited_for():
    inspector = OPENAI_CHAT.stream_inspector(ask(n=2))
    observe(inspector, chunk({"content": "a"}, index=0), chunk({}, "stop", index=0))
    assert not inspector.facts.every_choice_finished
    assert inspector.closing() == b""
    observe(inspector, chunk({"content": "b"}, index=1))
    assert not inspector.facts.every_choice_finished
    observe(inspector, chunk({}, "length", index=1))
    assert inspector.facts.every_choice_finished
    assert inspector.facts.finish_reasons == {0: "stop", 1: "length"}


def test_a_choice_nobody_asked_for_is_waited_for_too():
    inspector = OPENAI_CHAT.stream_inspector(ask())
    observe(inspector, chunk({"content": "a"}), chunk({}, "stop"), chunk({"content": "b"}, index=1))
    assert not inspector.facts.every_choice_finished


def test_several_choices_in_one_event():
    both = chunk({"content": "a"}, "stop")
    both["choices"].append({"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"})
    inspector, out = relayed(both, asked=ask(n=2))
    assert inspector.facts.every_choice_finished
    assert inspector.facts.received.text == "ab"
    assert out == frame(both)


def test_the_first_error_is_kept():
    inspector, _ = relayed(
        {"error": {"message": "first", "type": "server_error", "code": 503}}, {"error": {"message": "second"}}
    )
    error = inspector.facts.error
    assert (error.message, error.kind, error.code, error.status) == ("first", "server_error", "503", 503)


def test_broken_frames_are_soft_errors_with_their_offset():
    inspector = OPENAI_CHAT.stream_inspector(ask())
    for offset, sent in ((0, chunk({"content": "a"})), (300, "{"), (400, chunk({"content": "b"}))):
        inspector.observe(events_of(sent)[0], offset)
    facts = inspector.facts
    assert facts.soft_error_count == 1
    assert [(error.error_class, error.offset) for error in facts.soft_errors] == [("not_json", 300)]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, TokenUsage(input=7, output=3)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 80, "audio_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 30, "audio_tokens": 5},
            },
            TokenUsage(input=100, cached_input=80, output=50, reasoning=30, audio_input=4, audio_output=5),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 1,
                "prompt_cache_hit_tokens": 6,
                "prompt_cache_miss_tokens": 4,
            },
            TokenUsage(input=10, cached_input=6, output=1),
        ),
        (  # xAI: reasoning beside the completion, the total says so
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            TokenUsage(input=10, output=105, reasoning=100),
        ),
        (  # OpenAI: reasoning within the completion
            {
                "prompt_tokens": 10,
                "completion_tokens": 105,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            TokenUsage(input=10, output=105, reasoning=100),
        ),
        ({"prompt_tokens": 3.0, "completion_tokens": "4"}, TokenUsage(input=3)),
        ({"prompt_tokens": -1, "completion_tokens": 4}, TokenUsage(output=4)),
        ({"prompt_tokens": True, "completion_tokens": 4}, TokenUsage(output=4)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, TokenUsage(input=5)),
        ({"prompt_tokens": 5, "prompt_tokens_details": [1]}, TokenUsage(input=5)),
        ({}, None),
        ([], None),
    ],
)
def test_usage_is_normalised(usage, expected):
    inspector, _ = relayed({**chunk(), "choices": [], "usage": usage}, asked=ask_with_usage())
    assert inspector.facts.usage == expected
    body = json.dumps({"choices": [{}], "usage": usage}).encode()
    assert OPENAI_CHAT.inspect_whole(body).usage == expected


def test_later_usage_replaces_earlier_field_by_field():
    inspector, _ = relayed(
        {**chunk(), "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
        {**chunk(), "choices": [], "usage": {"prompt_tokens": None, "completion_tokens": 9}},
        {**chunk(), "choices": [], "usage": None},
    )
    assert inspector.facts.usage == TokenUsage(input=7, output=9)


@pytest.mark.parametrize(
    "sent",
    [
        {**chunk({}, "stop"), "x_groq": {"id": "r", "usage": USAGE}},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]},
    ],
)
def test_usage_in_vendors_own_places_is_read(sent):
    inspector, out = relayed(sent)
    assert inspector.facts.usage == TokenUsage(input=7, output=3)
    assert out == frame(sent)


@pytest.mark.parametrize(
    ("fragments", "valid"),
    [
        ([call(0, "c1", "f", ""), call(0, None, None, '{"a":'), call(0, None, None, "1}")], True),
        ([call(0, "c1", "f", "{}"), call(1, "c2", "g", "{}")], True),
        ([call(0, "c1", "f", "")], True),  # no parameters: many vendors send "" for {}
        ([call(0, "c1", "f")], True),
        ([call(0, "c1", "f", '{"a":"\\ud83d"}')], True),
        ([call(0, "c1", "f", '{"a":')], False),
        ([call(0, "c1", "f", '{"a":1}}')], False),
        ([call(0, "c1", "f", '{"a":NaN}')], False),
        ([call(0, "c1", None, "{}")], False),
        ([call(0, "c1", "f", "{"), call(0, "c2", None, "}")], False),  # another id in mid-call
        ([call(0, "c1", "f", "{}"), call(1, "c2", "g", "{")], False),
    ],
)
def test_tool_calls_are_checked_at_the_finish(fragments, valid):
    inspector, _ = relayed(*map(calls, fragments), chunk({}, "tool_calls"))
    classes = [error.error_class for error in inspector.facts.soft_errors]
    assert classes == ([] if valid else ["tool_call_invalid"])


def test_tool_calls_of_a_stream_that_never_finished_are_checked_at_the_end():
    inspector, _ = relayed(calls(call(0, "c1", "f", '{"a"')))
    assert inspector.closing() == b""
    assert [error.error_class for error in inspector.facts.soft_errors] == ["tool_call_invalid"]


def test_tool_calls_are_counted_once_each():
    inspector, _ = relayed(
        calls(call(0, "c1", "f", "{"), call(1, "c2", "g", "{}")), calls(call(0, None, None, "}"))
    )
    assert inspector.facts.tool_call_count == 2
