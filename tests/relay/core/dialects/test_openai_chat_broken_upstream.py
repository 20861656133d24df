"""Upstreams that send what no vendor means: absurd counts, choices that are no list, a usage that is none."""

import json

import pytest

from relay.core.dialects import OPAQUE, OPENAI_CHAT
from relay.core.dialects.base import EventKind
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import (
    USAGE,
    ask,
    ask_with_usage,
    chunk,
    events_of,
    frame,
    kinds,
    observe,
    payloads,
    relayed,
)

MOST = 1_000_000_000
NOT_COUNTS = [
    "1" + "0" * 30,
    str(MOST + 1),
    "-1",
    "12.5",
    "1e30",
    "1e999",
    "true",
    '"4"',
    "[]",
    "{}",
]
COUNTS = [("0", 0), ("12", 12), ("12.0", 12), ("1e3", 1000), (str(MOST), MOST)]
PLACES = [
    ('{"completion_tokens":3,"prompt_tokens":%s}', "input"),
    ('{"completion_tokens":3,"input_tokens":%s}', "input"),
    ('{"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":%s}}', "cached_input"),
    ('{"completion_tokens":3,"input_tokens_details":{"cache_write_tokens":%s}}', "cache_write_5m"),
    ('{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":%s}}', "reasoning"),
    ('{"completion_tokens":3,"output_tokens_details":{"audio_tokens":%s}}', "audio_output"),
]


def soft_errors(inspector):
    return [(error.error_class, error.offset) for error in inspector.facts.soft_errors]


def whole(usage: str) -> bytes:
    return b'{"choices":[{}],"usage":' + usage.encode() + b"}"


@pytest.mark.parametrize("number", NOT_COUNTS)
@pytest.mark.parametrize(("usage", "field"), PLACES)
def test_what_is_no_count_is_not_reported(usage, field, number):
    usage %= number
    inspector, _ = relayed('{"choices":[],"usage":' + usage + "}")
    assert inspector.facts.usage == TokenUsage(output=3)
    assert soft_errors(inspector) == [("usage_absurd", 0)]
    for dialect in (OPENAI_CHAT, OPAQUE):
        answer = dialect.inspect_whole(whole(usage))
        assert answer.usage == TokenUsage(output=3)
        assert answer.soft_errors == ("usage_absurd",)


@pytest.mark.parametrize(("number", "count"), COUNTS)
@pytest.mark.parametrize(("usage", "field"), PLACES)
def test_whole_numbers_are_counts_however_written(usage, field, number, count):
    usage %= number
    inspector, _ = relayed('{"choices":[],"usage":' + usage + "}")
    assert getattr(inspector.facts.usage, field) == count
    assert soft_errors(inspector) == []
    for dialect in (OPENAI_CHAT, OPAQUE):
        answer = dialect.inspect_whole(whole(usage))
        assert (getattr(answer.usage, field), answer.soft_errors) == (count, ())


def test_reasoning_beside_the_completion_never_adds_up_to_an_absurd_count():
    usage = {
        "prompt_tokens": 0,
        "completion_tokens": MOST,
        "total_tokens": 2 * MOST,
        "completion_tokens_details": {"reasoning_tokens": MOST},
    }
    inspector, _ = relayed({"choices": [], "usage": usage})
    assert inspector.facts.usage == TokenUsage(input=0, output=MOST, reasoning=MOST)
    assert soft_errors(inspector) == [("usage_absurd", 0)]


def test_an_absurd_usage_replaces_nothing_and_is_told_once():
    inspector, _ = relayed(
        chunk({"content": "a"}, usage=USAGE),
        chunk({"content": "b"}, usage={**USAGE, "prompt_tokens": 10**30}),
        chunk({"content": "c"}, usage={**USAGE, "prompt_tokens": -5, "completion_tokens": 4}),
    )
    assert inspector.facts.usage == TokenUsage(input=7, output=4)
    assert soft_errors(inspector) == [("usage_absurd", 0)]


@pytest.mark.parametrize(
    "sent",
    [
        chunk({"content": "a"}, usage={"prompt_tokens": 10**30}),
        chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 10**30}}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 10**30}}]},
    ],
)
def test_absurd_counts_are_found_in_every_place(sent):
    inspector, _ = relayed(sent)
    assert inspector.facts.usage is None
    assert soft_errors(inspector) == [("usage_absurd", 0)]


def test_a_number_of_thousands_of_digits_is_absurd():
    answer = OPENAI_CHAT.inspect_whole(whole('{"prompt_tokens":1' + "0" * 5000 + "}"))
    assert (answer.usage, answer.soft_errors) == (None, ("usage_absurd",))


@pytest.mark.parametrize("choices", [{"0": 1}, {}, "x", "", 7, 0, True, False])
def test_a_frame_whose_choices_are_no_list_is_invalid(choices):
    inspector = OPENAI_CHAT.stream_inspector(ask())
    (verdict,) = observe(inspector, {**chunk(), "choices": choices})
    assert verdict == (EventKind.INVALID, b"")
    assert soft_errors(inspector) == [("not_json", 0)]


@pytest.mark.parametrize("choices", [{"0": 1}, "x", False])
def test_the_aggregator_makes_no_answer_around_a_frame_whose_choices_are_no_list(choices):
    aggregator = OPENAI_CHAT.aggregator(ask())
    for event in events_of(chunk({"content": "a"}), {"choices": choices}, chunk({}, "stop"), "[DONE]"):
        aggregator.add(event)
    with pytest.raises(ValueError, match="not_json"):
        aggregator.whole()


def test_an_error_beside_choices_that_are_no_list_is_an_error():
    inspector = OPENAI_CHAT.stream_inspector(ask())
    assert kinds(observe(inspector, {"choices": {}, "error": {"message": "boom"}})) == [EventKind.ERROR]
    assert inspector.facts.error.message == "boom"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "x", "message": "ok", "code": 200},
        {"usage": USAGE},
        {"choices": None, "usage": USAGE},
        {"choices": "x", "usage": USAGE},
        {"choices": {"0": {}}, "usage": USAGE},
        {"choices": 7},
        {"choices": []},
        {"choices": [], "usage": None},
        {"choices": [], "usage": {}},
        {"choices": [], "usage": {"prompt_tokens": 10**30}},
        {"choices": [], "prompt_filter_results": None},
    ],
)
def test_a_whole_body_without_choices_is_no_answer(body):
    with pytest.raises(ValueError, match="choices"):
        OPENAI_CHAT.inspect_whole(json.dumps(body).encode())


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "usage": USAGE},
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"choices": [{}]},
        {"choices": [{"text": "legacy", "finish_reason": "stop"}]},
    ],
)
def test_an_answer_without_choices_needs_a_sign_of_work(body):
    assert OPENAI_CHAT.inspect_whole(json.dumps(body).encode()).error is None


@pytest.mark.parametrize(
    "body",
    [
        {"choices": None, "detail": "boom"},
        {"choices": [], "message": "boom", "code": 1301},
        {"choices": "x", "error": {"message": "boom"}},
    ],
)
def test_an_error_is_recognised_before_choices_are_missed(body):
    assert OPENAI_CHAT.inspect_whole(json.dumps(body).encode()).error.message == "boom"


MALFORMED = ["x", "", 7, 0, True, False, [], [1], {}, {"prompt_tokens": "x"}]


@pytest.mark.parametrize("usage", MALFORMED)
@pytest.mark.parametrize("choices", [{"choices": []}, {"choices": None}, {}])
def test_a_malformed_usage_chunk_not_asked_for_is_withheld(usage, choices):
    sent = {**choices, "usage": usage}
    assert relayed(sent)[1] == b""
    assert payloads(relayed(sent, asked=ask_with_usage())[1]) == [{"choices": [], "usage": usage}]


@pytest.mark.parametrize("usage", MALFORMED)
def test_a_malformed_usage_beside_choices_goes_and_the_choices_stay(usage):
    sent = chunk({"content": "a"}, usage=usage)
    known = chunk({"role": "assistant", "content": ""})
    kept = {name: value for name, value in sent.items() if name != "usage"}
    assert payloads(relayed(known, sent)[1]) == [known, kept]
    assert relayed(known, sent, asked=ask_with_usage())[1] == frame(known) + frame(sent)


def test_a_usage_of_nothing_is_no_content():
    inspector = OPENAI_CHAT.stream_inspector(ask())
    sent = [{"choices": [], "usage": "x"}, chunk({"role": "assistant"}, usage="x")]
    assert kinds(observe(inspector, *sent)) == [EventKind.PREAMBLE] * 2


def test_half_a_surrogate_pair_in_a_whole_answer_is_an_answer():
    """JSON by its grammar, and what a server sends that cuts an emoji in two at `max_tokens`."""
    body = rb'{"choices":[{"message":{"content":"\ud83d"},"finish_reason":"length"}],"usage":{"prompt_tokens":7}}'
    answer = OPENAI_CHAT.inspect_whole(body)
    assert (answer.finish_reasons, answer.usage) == (("length",), TokenUsage(input=7))
