"""Streams to whole answers and back: nothing a client can see is lost."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import AggregationFailed, EventKind
from relay.core.dialects.pieces import PIECE_CHARS
from relay.core.sse import DONE, EventStreamParser
from tests.relay.core.dialects.openai_chat_samples import (
    USAGE,
    ask,
    ask_with_usage,
    call,
    calls,
    chunk,
    events_of,
    payloads,
)


def aggregate(*frames: object) -> dict:
    aggregator = OPENAI_CHAT.aggregator(ask(stream=False))
    for event in events_of(*frames):
        aggregator.add(event)
    return json.loads(aggregator.whole())


def explode(answer: object, asked=None) -> list[object]:
    body = json.dumps(answer).encode()
    return payloads(b"".join(OPENAI_CHAT.whole_to_events(body, asked or ask_with_usage())))


def answer(message: dict, finish: str = "stop", **members: object) -> dict:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        **members,
    }


def test_everything_of_a_stream_is_in_the_whole():
    logprobs = [{"token": token, "logprob": -0.5, "bytes": [1], "top_logprobs": []} for token in "ab"]
    first = chunk({"role": "assistant", "content": "", "refusal": None}, system_fingerprint="fp")
    texts = []
    for token, probability in zip("ab", logprobs, strict=True):
        texts.append(chunk({"content": token}))
        texts[-1]["choices"][0]["logprobs"] = {"content": [probability], "refusal": None}
    whole = aggregate(
        first,
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning_content": "m"}),
        *texts,
        chunk({"content": "other"}, index=1),
        chunk({}, "length", index=1),
        chunk({}, "stop"),
        {**chunk(), "choices": [], "usage": USAGE},
        "[DONE]",
    )
    assert whole == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_718_000_000,
        "model": "gpt-4o-2024-08-06",
        "system_fingerprint": "fp",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab", "refusal": None, "reasoning_content": "hm"},
                "logprobs": {"content": logprobs, "refusal": None},
                "finish_reason": "stop",
            },
            {
                "index": 1,
                "message": {"role": "assistant", "content": "other"},
                "finish_reason": "length",
            },
        ],
        "usage": USAGE,
    }


def test_tool_calls_are_joined_by_index_and_badly_numbered_ones_by_id():
    for second in (1, 0, None):
        whole = aggregate(
            calls({**call(0, "a", "f", ""), "type": "function"}),
            calls(call(0, None, None, '{"x":')),
            calls(call(0, None, None, "1}")),
            calls({**call(second, "b", "g", '{"y":'), "type": "function", "extra": {"sig": "s"}}),
            calls(call(second, None, None, "2}")),
            chunk({}, "tool_calls"),
        )
        message = whole["choices"][0]["message"]
        assert message["content"] is None
        assert message["tool_calls"] == [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {
                "id": "b",
                "type": "function",
                "extra": {"sig": "s"},
                "function": {"name": "g", "arguments": '{"y":2}'},
            },
        ]


def test_custom_tools_keep_their_free_text():
    first = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sh", "input": "l"}}
    whole = aggregate(calls(first), calls({"index": 0, "custom": {"input": "s -l"}}), chunk({}, "tool_calls"))
    [made] = whole["choices"][0]["message"]["tool_calls"]
    assert made == {"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}


def test_stop_after_whole_tool_calls_is_repaired_in_the_aggregate_too():
    whole = aggregate(calls(call(0, "a", "f", "{}")), chunk({}, "stop"))
    assert whole["choices"][0]["finish_reason"] == "tool_calls"


def test_members_of_vendors_are_kept():
    whole = aggregate(
        chunk({"content": "a", "annotations": [{"n": 1}]}, citations=["x"]),
        chunk({"annotations": [{"n": 2}], "reasoning_details": [{"t": "r"}]}, citations=["x", "y"]),
        chunk({}, "stop"),
    )
    message = whole["choices"][0]["message"]
    assert (message["annotations"], message["reasoning_details"]) == ([{"n": 1}, {"n": 2}], [{"t": "r"}])
    assert whole["citations"] == ["x", "y"]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ([], "incomplete"),
        (["[DONE]"], "incomplete"),
        ([chunk({"content": "a"})], "incomplete"),
        ([chunk({"content": "a"}), "[DONE]"], "incomplete"),
        ([chunk({"content": "a"}, "")], "incomplete"),
        ([chunk({}, "stop"), chunk({"content": "b"}, index=1)], "incomplete"),
        ([chunk({"content": "a"}), "{", chunk({}, "stop")], "not_json"),
        ([chunk({"content": "a"}), {"error": {"message": "x"}}], "upstream_error_event"),
        ([b"event: error\ndata: overloaded\n\n", chunk({}, "stop")], "upstream_error_event"),
        ([calls(call(0, "a", "f", '{"x"')), chunk({}, "tool_calls")], "tool_call_invalid"),
        ([calls(call(0, "a", None, "{}")), chunk({}, "stop")], "tool_call_invalid"),
    ],
)
def test_no_answer_is_better_than_a_short_one(stream, reason):
    with pytest.raises(AggregationFailed) as failed:
        aggregate(*stream)
    assert str(failed.value) == reason


def test_a_tool_call_cut_by_the_token_limit_is_an_honest_answer():
    """Its finish reason says so; the same request without streaming gives the same."""
    whole = aggregate(calls(call(0, "a", "f", '{"x"')), chunk({}, "length"))
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"x"'


def test_size_grows_with_what_is_kept():
    aggregator = OPENAI_CHAT.aggregator(ask())
    for event in events_of(*[chunk({"content": "x" * 100})] * 50, calls(call(0, "a", "f", "y" * 1000))):
        aggregator.add(event)
    assert 6_000 <= aggregator.size_bytes <= 6_500


def test_usage_is_only_for_those_who_asked():
    whole = answer({"content": "hi"}, usage=USAGE)
    assert explode(whole, ask_with_usage())[-2]["usage"] == USAGE
    assert all(event == "[DONE]" or "usage" not in event for event in explode(whole, ask()))


def test_the_stream_begins_with_the_role_and_ends_with_finish_and_done():
    first, *_, last, done = explode(answer({"content": "hi there"}), ask())
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["object"] == "chat.completion.chunk"
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert done == "[DONE]"


@pytest.mark.parametrize("text", ["word " * 1_000, "x" * 5_000, "中文" * 2_000, "a\n" * 700, " " * 1_500])
def test_long_text_is_split_at_words_into_pieces_of_sensible_size(text):
    pieces = [
        event["choices"][0]["delta"]["content"]
        for event in explode(answer({"content": text}), ask())[1:-1]
        if "content" in event["choices"][0]["delta"]
    ]
    assert "".join(pieces) == text
    assert len(pieces) == pytest.approx(len(text) / PIECE_CHARS, abs=2)
    assert all(len(piece) <= PIECE_CHARS for piece in pieces)
    if " " in text or "\n" in text:
        assert all(piece[-1].isspace() for piece in pieces)


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'{"choices":7}', b'{"choices":[1]}'])
def test_what_is_no_answer_is_a_value_error_before_the_first_frame(body):
    with pytest.raises(ValueError):
        OPENAI_CHAT.whole_to_events(body, ask())


def test_half_a_surrogate_pair_is_exploded_as_what_can_be_written():
    body = json.dumps(answer({"content": "\ud83d"})).encode()
    assert aggregate(*OPENAI_CHAT.whole_to_events(body, ask()))["choices"][0]["message"]["content"] == "?"


def test_exploded_answers_satisfy_the_inspector():
    tool = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    asked = ask_with_usage()
    body = json.dumps(answer({"content": "hi", "tool_calls": [tool]}, "stop", usage=USAGE)).encode()
    sent = b"".join(OPENAI_CHAT.whole_to_events(body, asked))
    inspector = OPENAI_CHAT.stream_inspector(asked)
    results = [inspector.observe(event, 0) for event in EventStreamParser().feed(sent)]
    assert b"".join(out for _, out in results) == sent  # nothing in it needs a repair
    assert results[-1] == (EventKind.TERMINAL, DONE)
    facts = inspector.facts
    assert (facts.finish_reasons, facts.soft_error_count) == ({0: "tool_calls"}, 0)
    assert (facts.usage.input, facts.usage.output) == (7, 3)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(" ab\n", max_size=1_500)
scalars = (
    st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts | st.booleans()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tool_calls = st.builds(
    lambda number, name, arguments, more: {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
        **more,
    },
    st.uuids(),
    texts.filter(bool),
    st.dictionaries(texts, values, max_size=3),
    st.just({})
    | st.fixed_dictionaries(
        {"extra_content": st.dictionaries(texts.filter(bool), values, min_size=1, max_size=2)}
    ),
)
token_logprobs = st.fixed_dictionaries(
    {"token": texts, "logprob": st.floats(-10, 0), "top_logprobs": st.just([])}
)
messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": texts | st.none()},
    optional={
        "refusal": texts | st.none(),
        "reasoning_content": texts | st.none(),
        "annotations": st.lists(st.dictionaries(texts, values, max_size=2), max_size=2),
        "tool_calls": st.lists(tool_calls, min_size=1, max_size=4),
    },
)


@st.composite
def answers(draw):
    choices = []
    for index in range(draw(st.integers(1, 3))):
        message = draw(messages)
        finish = (
            "tool_calls"
            if "tool_calls" in message
            else draw(st.sampled_from(["stop", "length", "content_filter"]))
        )
        more = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "logprobs": st.none()
                    | st.fixed_dictionaries(
                        {"content": st.lists(token_logprobs, max_size=3), "refusal": st.none()}
                    )
                },
            )
        )
        choices.append({"index": index, "message": message, "finish_reason": finish, **more})
    optional = {
        "system_fingerprint": texts.filter(bool),
        "service_tier": st.just("default"),
        "usage": st.just(USAGE),
        "citations": st.lists(texts, max_size=3),
    }
    required = {"id": texts.filter(bool), "created": st.integers(0, 2**40), "model": texts.filter(bool)}
    members = draw(st.fixed_dictionaries(required, optional=optional))
    return {**members, "object": "chat.completion", "choices": choices}


@settings(deadline=None)
@given(answers())
def test_the_round_trip_loses_nothing(whole):
    body = json.dumps(whole).encode()
    aggregator = OPENAI_CHAT.aggregator(ask(stream=False))
    for frame in OPENAI_CHAT.whole_to_events(body, ask_with_usage()):
        for event in EventStreamParser().feed(frame):
            aggregator.add(event)
    assert json.loads(aggregator.whole()) == whole
