"""Anthropic's counts, and what imitations make of them. Each oddity names where it was seen."""

import json

import pytest

from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.usage import MAX_COUNT, TokenUsage
from tests.relay.core.dialects.anthropic_samples import STOP, ended, observed, said, soft_errors, started

# start: usage of message_start; ends: usages of message_delta, in order; None = the member is missing.
STREAMED = {
    "as documented": (
        {"input_tokens": 25, "output_tokens": 1}, [{"output_tokens": 15}],
        TokenUsage(input=25, output=15),
    ),
    "cache counts beside the input (braintrustdata/braintrust-proxy#226)": (
        {"input_tokens": 7, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 100, "output_tokens": 1},
        [{"output_tokens": 9}],
        TokenUsage(input=2107, cached_input=2000, cache_write_5m=100, output=9),
    ),
    "writes by how long they are kept": (
        {"input_tokens": 7, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 100, "output_tokens": 1,
         "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}},
        [{"output_tokens": 9}],
        TokenUsage(input=107, cached_input=0, cache_write_5m=40, cache_write_1h=60, output=9),
    ),
    "the end repeats the totals (langchain-ai/langchainjs#10249, envoyproxy/ai-gateway#2239)": (
        {"input_tokens": 7, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 1,
         "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100}},
        [{"input_tokens": 7, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 9}],
        TokenUsage(input=127, cached_input=20, cache_write_5m=0, cache_write_1h=100, output=9),
    ),
    "several ends with server tools (PostHog/posthog-python v7.75.4)": (
        {"input_tokens": 2679, "output_tokens": 3},
        [{"input_tokens": 5000, "output_tokens": 200}, {"input_tokens": 10682, "output_tokens": 510}],
        TokenUsage(input=10682, output=510),
    ),
    "the end says 0 input (envoyproxy/ai-gateway#1631, sgl-project/sglang#20830)": (
        {"input_tokens": 15, "output_tokens": 1}, [{"input_tokens": 0, "output_tokens": 9}],
        TokenUsage(input=15, output=9),
    ),
    "the end says 0 everywhere": (
        {"input_tokens": 15, "cache_read_input_tokens": 5, "output_tokens": 1},
        [{"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 9}],
        TokenUsage(input=20, cached_input=5, output=9),
    ),
    "the start says 0, the end the truth (sgl-project/sglang#20685)": (
        {"input_tokens": 0, "output_tokens": 0}, [{"input_tokens": 15, "output_tokens": 9}],
        TokenUsage(input=15, output=9),
    ),
    "the start says the whole prompt, the end splits it (maximhq/bifrost#5355, Qwen)": (
        {"input_tokens": 8834, "output_tokens": 0},
        [{"input_tokens": 18, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 8831, "output_tokens": 426,
          "cache_creation": {"ephemeral_5m_input_tokens": 0}}],
        TokenUsage(input=8849, cached_input=8831, cache_write_5m=0, output=426),
    ),
    "the end names the cached part alone (jeremychone/rust-genai#258, DashScope)": (
        {"input_tokens": 3602, "output_tokens": 0},
        [{"cache_creation_input_tokens": 0, "cache_read_input_tokens": 3000, "output_tokens": 878}],
        TokenUsage(input=3602, cached_input=3000, cache_write_5m=0, output=878),
    ),
    "the same, and more is cached than there was (jeremychone/rust-genai#258)": (
        {"input_tokens": 3602, "output_tokens": 0},
        [{"cache_creation_input_tokens": 0, "cache_read_input_tokens": 3604, "output_tokens": 878}],
        TokenUsage(input=3604, cached_input=3604, cache_write_5m=0, output=878),
    ),
    "0 throughout is not reported: no prompt is empty": (
        {"input_tokens": 0, "output_tokens": 0}, [{"output_tokens": 9}],
        TokenUsage(output=9),
    ),
    "the output of the start is a placeholder": (
        {"input_tokens": 25, "output_tokens": 8}, [],
        TokenUsage(input=25),
    ),
    "null and missing counts keep what was known": (
        {"input_tokens": 25, "cache_read_input_tokens": 5, "output_tokens": 1},
        [{"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 9}, {"service_tier": "standard"}],
        TokenUsage(input=30, cached_input=5, output=9),
    ),
    "thinking is part of the output": (
        {"input_tokens": 25, "output_tokens": 1},
        [{"output_tokens": 90, "output_tokens_details": {"thinking_tokens": 70}}],
        TokenUsage(input=25, output=90, reasoning=70),
    ),
    "compaction is billed beside the top (anthropic SDK 2.14, BetaUsage.iterations)": (
        {"input_tokens": 100, "cache_read_input_tokens": 0, "output_tokens": 1},
        [{"output_tokens": 10, "iterations": [
            {"type": "compaction", "input_tokens": 1000, "output_tokens": 300, "cache_read_input_tokens": 50,
             "cache_creation_input_tokens": 20},
            {"type": "message", "input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0},
        ]}],
        TokenUsage(input=1170, cached_input=50, cache_write_5m=20, output=310),
    ),
    "floats that are whole numbers": (
        {"input_tokens": 25.0, "output_tokens": 1}, [{"output_tokens": 15.0}],
        TokenUsage(input=25, output=15),
    ),
}  # fmt: skip


@pytest.mark.parametrize("oddity", STREAMED)
def test_streamed(oddity):
    start, ends, expected = STREAMED[oddity]
    inspector, _, _ = observed(started(**start), said("x"), *(ended(None, **usage) for usage in ends), STOP)
    assert inspector.facts.usage == expected
    assert soft_errors(inspector) == []


def test_a_stream_without_usage():
    inspector, _, _ = observed(started(nothing=1), said("x"), ended(nothing=1), STOP)
    assert inspector.facts.usage is None


ABSURD = [-1, 1.5, "25", True, [], {}, MAX_COUNT + 1, 10**30, 1e999]


@pytest.mark.parametrize("count", ABSURD, ids=repr)
def test_what_is_no_count_is_not_reported_and_told_once(count):
    text = json.dumps({"input_tokens": count, "output_tokens": 1}).replace("Infinity", "1e999")
    start = started(input_tokens="?").replace(b'{"input_tokens": "?"}', text.encode())
    inspector, _, _ = observed(
        start, ended(None, output_tokens=count if count != 1e999 else -1), ended(output_tokens=9)
    )
    assert inspector.facts.usage == TokenUsage(output=9)
    assert soft_errors(inspector) == ["usage_absurd"]


@pytest.mark.parametrize("count", [-5, "x", None, 2**70])
@pytest.mark.parametrize("name", ["cache_read_input_tokens", "cache_creation_input_tokens"])
def test_a_part_that_is_absurd_leaves_the_rest(name, count):
    inspector, _, _ = observed(started(**{"input_tokens": 25, "output_tokens": 1, name: count}), ended())
    assert inspector.facts.usage == TokenUsage(input=25, output=15)


def test_huge_counts_add_up_to_no_more_than_there_can_be():
    huge = dict.fromkeys(
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), MAX_COUNT
    )
    usage = observed(started(**huge), ended())[0].facts.usage
    assert usage.input == MAX_COUNT


def whole(**usage: object) -> bytes:
    message = {"type": "message", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    return json.dumps({**message, "usage": usage}).encode()


@pytest.mark.parametrize(
    ("usage", "expected", "errors"),
    [
        ({"input_tokens": 25, "output_tokens": 15}, TokenUsage(input=25, output=15), ()),
        (
            {"input_tokens": 7, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 3,
             "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}},
            TokenUsage(input=127, cached_input=20, cache_write_5m=40, cache_write_1h=60, output=3), (),
        ),
        (
            {"input_tokens": 7, "output_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 60}},
            TokenUsage(input=67, cache_write_5m=0, cache_write_1h=60, output=3), (),
        ),
        (
            {"input_tokens": 7, "output_tokens": 3, "cache_creation_input_tokens": 10,
             "cache_creation": {"ephemeral_1h_input_tokens": 60}},
            TokenUsage(input=17, cache_write_5m=0, cache_write_1h=10, output=3), (),
        ),
        ({"input_tokens": 0, "output_tokens": 0}, TokenUsage(output=0), ()),
        ({"input_tokens": -1, "output_tokens": 3}, TokenUsage(output=3), ("usage_absurd",)),
        ({}, None, ()),
    ],
)  # fmt: skip
def test_whole(usage, expected, errors):
    answer = ANTHROPIC.inspect_whole(whole(**usage))
    assert (answer.usage, answer.soft_errors) == (expected, errors)


@pytest.mark.parametrize(
    "usage", ["null", "7", '"x"', "[]", "[1]", "true", '{"input_tokens":' + "9" * 5000 + "}"]
)
def test_a_usage_that_is_none_never_raises(usage):
    body = whole().replace(b'"usage": {}', b'"usage": ' + usage.encode())
    assert ANTHROPIC.inspect_whole(body).usage is None
