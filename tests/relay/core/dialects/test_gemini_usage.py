"""Gemini's counts, and what imitations make of them. Each oddity names where it was seen."""

import json

import pytest

from relay.core.dialects.gemini import GEMINI, GEMINI_COUNT_TOKENS, GEMINI_PREDICT, GEMINI_VECTORS
from relay.core.usage import MAX_COUNT, TokenUsage
from tests.relay.core.dialects.gemini_samples import (
    candidate,
    chunk,
    ended,
    observed,
    said,
    soft_errors,
    usage,
)

TEXT_AND_PICTURE = [{"modality": "TEXT", "tokenCount": 6}, {"modality": "IMAGE", "tokenCount": 258}]

STREAMED = {
    "as documented: thoughts beside the candidates (simonw/llm-gemini#75)": (
        [usage(6), usage(6, 104, thoughtsTokenCount=989, totalTokenCount=1099)],
        TokenUsage(input=6, output=1093, reasoning=989),
    ),
    "the cached part is within the prompt (Arize-ai/openinference#3016)": (
        [usage(120, 5, cachedContentTokenCount=100, totalTokenCount=125)],
        TokenUsage(input=120, cached_input=100, output=5),
    ),
    "what tools added is beside the prompt (simstudioai/sim#3039)": (
        [usage(7, 14, toolUsePromptTokenCount=40, totalTokenCount=61)],
        TokenUsage(input=47, output=14),
    ),
    "totals, never added up (computesdk/benchmarks#372)": (
        [usage(7, 1), usage(7, 2), usage(7, 6, thoughtsTokenCount=190)],
        TokenUsage(input=7, output=196, reasoning=190),
    ),
    "thoughts within the candidates (Arize-ai/openinference#3177)": (
        [usage(341, 3362, thoughtsTokenCount=3347, totalTokenCount=3703)],
        TokenUsage(input=341, output=3362, reasoning=3347),
    ),
    "the limit was spent on thinking: no candidates": (
        [usage(7, thoughtsTokenCount=97, totalTokenCount=104)],
        TokenUsage(input=7, output=97, reasoning=97),
    ),
    "only the total tells what was produced": (
        [usage(7, totalTokenCount=20)],
        TokenUsage(input=7, output=13),
    ),
    "thoughts in an early chunk, candidates in the last": (
        [usage(7, thoughtsTokenCount=41), usage(7, 6, totalTokenCount=54)],
        TokenUsage(input=7, output=47, reasoning=41),
    ),
    "the end has no numbers: trafficType alone (Vertex)": (
        [usage(7, 3), {"trafficType": "ON_DEMAND"}],
        TokenUsage(input=7, output=3),
    ),
    "the end says 0 for a prompt that was": (
        [usage(7, 3), usage(0, 5)],
        TokenUsage(input=7, output=5),
    ),
    "kinds of input and output": (
        [
            usage(
                264, 1300, promptTokensDetails=TEXT_AND_PICTURE,
                candidatesTokensDetails=[{"modality": "IMAGE", "tokenCount": 1290}],
            )
        ],
        TokenUsage(input=264, image_input=258, output=1300, image_output=1290),
    ),
    "sound, in two entries": (
        [usage(90, 5, promptTokensDetails=[{"modality": "AUDIO", "tokenCount": 32}] * 2)],
        TokenUsage(input=90, audio_input=64, output=5),
    ),
    "more cached than there was": (
        [usage(7, 3, cachedContentTokenCount=9)],
        TokenUsage(input=7, cached_input=7, output=3),
    ),
    "whole numbers as floats": ([usage(7.0, 3.0)], TokenUsage(input=7, output=3)),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMED)
def test_streamed(case):
    reports, expected = STREAMED[case]
    inspector, _, _ = observed(*(chunk(candidate({"text": "x"}), usage=report) for report in reports))
    assert inspector.facts.usage == expected
    assert soft_errors(inspector) == []


@pytest.mark.parametrize("case", STREAMED)
def test_whole(case):
    """The last report of a stream that repeats itself is what a whole answer would say."""
    reports, expected = STREAMED[case]
    if len(reports) > 1:
        reports = [{name: value for report in reports for name, value in report.items() if value}]
    body = {"candidates": [candidate({"text": "x"}, finish="STOP")], "usageMetadata": reports[0]}
    assert GEMINI.inspect_whole(json.dumps(body).encode()).usage == expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (usage(7, -3), TokenUsage(input=7)),
        (usage(MAX_COUNT + 1, 3), TokenUsage(output=3)),
        (usage("7", 3), TokenUsage(output=3)),
        (usage(7, 3, thoughtsTokenCount=1.5), TokenUsage(input=7, output=3)),
        ([1], None),
        ("x", None),
    ],
)
def test_what_is_no_count_is_left_out_and_told_once(report, expected):
    part = chunk(candidate({"text": "x"}), usage=report)
    inspector, _, out = observed(part, part)
    assert inspector.facts.usage == expected
    assert soft_errors(inspector) == ["usage_absurd"]
    assert out == part + part


@pytest.mark.parametrize("report", [None, {}, []])
def test_nothing_reported(report):
    body = {"candidates": [candidate({"text": "x"}, finish="STOP")], "usageMetadata": report}
    assert GEMINI.inspect_whole(json.dumps(body).encode()).usage is None


def test_zeros_are_left_out_of_this_json_so_an_empty_answer_has_no_output():
    assert observed(ended("SAFETY", prompt=9))[0].facts.usage == TokenUsage(input=9, output=0)
    body = {
        "candidates": [{"finishReason": "SAFETY", "index": 0}],
        "usageMetadata": usage(9, totalTokenCount=9),
    }
    assert GEMINI.inspect_whole(json.dumps(body).encode()).usage == TokenUsage(input=9, output=0)


def test_a_text_without_a_count_is_no_empty_answer():
    """It would be free otherwise: its tokens are estimated."""
    assert observed(said("x") + ended("STOP", prompt=9))[0].facts.usage == TokenUsage(input=9)


def test_a_call_without_arguments_is_no_empty_answer():
    call = chunk(candidate({"functionCall": {"name": "now"}}, finish="STOP"), usage=usage(9))
    assert observed(call)[0].facts.usage == TokenUsage(input=9)


def test_an_unfinished_answer_without_text_is_not_known_to_be_empty():
    assert observed(chunk(candidate({"text": ""})))[0].facts.usage == TokenUsage(input=7)


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        (GEMINI_COUNT_TOKENS, {"totalTokens": 31}, TokenUsage(input=0, output=0)),
        (GEMINI_COUNT_TOKENS, {"totalTokens": 0}, TokenUsage(input=0, output=0)),
        (GEMINI_VECTORS, {"embedding": {"values": [0.1]}}, TokenUsage(output=0)),
        (GEMINI_VECTORS, {"embeddings": [{"values": [0.1]}]}, TokenUsage(output=0)),
        (
            GEMINI_VECTORS,
            {"embedding": {"values": [0.1]}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}},
            TokenUsage(input=4, output=0),
        ),
        (
            GEMINI_PREDICT,
            {
                "predictions": [
                    {"mimeType": "image/png", "bytesBase64Encoded": "QQ"},
                    {"raiFilteredReason": "x"},
                ]
            },
            TokenUsage(output=0, images=1),
        ),
        (GEMINI_PREDICT, {}, TokenUsage(output=0, images=0)),
    ],
)
def test_other_answers(dialect, body, expected):
    assert dialect.inspect_whole(json.dumps(body).encode()).usage == expected
