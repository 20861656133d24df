"""Whatever an upstream sends: the inspector never raises, and only what it must not relay is missing."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import EventKind
from relay.core.sse import Event, EventStreamParser
from tests.relay.core.dialects.openai_chat_samples import (
    ask,
    ask_with_usage,
    call,
    calls,
    chunk,
    events_of,
    frame,
)

NAMES = [
    "id", "object", "model", "choices", "usage", "error", "detail", "index", "delta", "finish_reason", "content",
    "role", "refusal", "reasoning", "tool_calls", "function", "name", "arguments", "text", "custom", "x_groq",
    "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "message", "code",
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "stop", "a", "{}", "\ud83d", "error"])
    | st.text(max_size=4)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
loose = st.dictionaries(st.sampled_from(NAMES), json_values, max_size=4)
choices = st.fixed_dictionaries(
    {},
    optional={
        "index": scalars,
        "finish_reason": scalars,
        "text": scalars,
        "delta": st.fixed_dictionaries(
            {},
            optional={
                "content": json_values,
                "reasoning": json_values,
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"index": scalars, "id": scalars, "function": loose, "custom": loose}
                    )
                    | scalars,
                    max_size=3,
                )
                | scalars,
                "function_call": json_values,
            },
        )
        | scalars,
        "usage": json_values,
    },
)
chunks = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(choices | scalars, max_size=3) | scalars,
        "usage": loose | scalars,
        "model": scalars,
        "error": scalars,
    },
)
payload = json_values.map(json.dumps) | chunks.map(json.dumps) | st.text(max_size=30)
events = st.builds(
    lambda name, data, last_id, retry: Event(
        name, data, last_id, retry, f"event: {name}\ndata: {data}\n\n".encode("utf-8", "replace")
    ),
    st.sampled_from(["message", "error", "ping"]),
    payload,
    st.sampled_from(["", "1"]),
    st.none() | st.just(5),
)
SHOWN = {EventKind.CONTENT, EventKind.PREAMBLE}


@settings(max_examples=300, deadline=None)
@given(st.lists(events, max_size=8), st.booleans())
def test_never_raises_and_counts_only_what_is_shown(stream, with_usage):
    inspector = OPENAI_CHAT.stream_inspector(ask_with_usage() if with_usage else ask())
    for event in stream:
        counted = inspector.facts.received.size
        kind, out = inspector.observe(event, 0)
        assert isinstance(out, bytes)
        assert kind is EventKind.CONTENT or inspector.facts.received.size == counted
        if kind in (EventKind.INVALID, EventKind.ERROR):
            assert out == b""
        if kind in SHOWN and with_usage:
            assert out
    assert inspector.closing() in (b"", b"data: [DONE]\n\n")


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_never_raises_on_any_bytes(body):
    inspector = OPENAI_CHAT.stream_inspector(ask())
    aggregator = OPENAI_CHAT.aggregator(ask())
    parser = EventStreamParser(keep_comments=True)
    for event in [*parser.feed(body), *parser.close()]:
        inspector.observe(event, 0)
        aggregator.add(event)


@settings(max_examples=200, deadline=None)
@given(st.lists(events, max_size=6))
def test_the_aggregator_answers_or_fails_in_its_own_way(stream):
    aggregator = OPENAI_CHAT.aggregator(ask())
    for event in stream:
        aggregator.add(event)
    try:
        body = aggregator.whole()
    except ValueError:  # AggregationFailed is one
        return
    OPENAI_CHAT.inspect_whole(body)


@settings(max_examples=200, deadline=None)
@given(chunks.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_whole_answers_explode_or_are_a_value_error(body):
    try:
        frames = OPENAI_CHAT.whole_to_events(body, ask_with_usage())
    except ValueError:
        return
    for sent in frames:
        assert EventStreamParser().feed(sent)


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_deep_nesting_does_not_break_the_relay(depth):
    deep = '{"choices":[{"index":0,"delta":{"content":' + "[" * depth + "]" * depth + "}}]}"
    inspector = OPENAI_CHAT.stream_inspector(ask())
    [result] = [inspector.observe(event, 0) for event in events_of(deep)]
    assert result.kind in {EventKind.PREAMBLE, EventKind.CONTENT, EventKind.INVALID}


def test_long_tool_streams_cost_linear_time():
    """20,000 fragments of one call: assembled and checked once, not at each fragment."""
    inspector = OPENAI_CHAT.stream_inspector(ask())
    first = events_of(calls(call(0, "a", "f", '{"x":"')))[0]
    more = events_of(calls(call(0, None, None, "y" * 50)))[0]
    last = events_of(calls(call(0, None, None, '"}')), chunk({}, "tool_calls"))
    began = time.process_time()
    for event in [first, *[more] * 20_000, *last]:
        inspector.observe(event, 0)
    assert time.process_time() - began < 2
    assert inspector.facts.soft_error_count == 0


def test_an_ordinary_event_is_forwarded_as_the_same_bytes_object():
    inspector = OPENAI_CHAT.stream_inspector(ask())
    for event in events_of(frame(chunk({"content": "a"})) * 2):
        _, out = inspector.observe(event, 0)
        assert out is event.raw
