"""Estimates: what of a prompt counts, and what stands in for missing usage."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.estimate import (
    BYTES_PER_TOKEN,
    MEDIA_TOKENS,
    RECEIVED_TEXT_MAX,
    Evidence,
    answer_text,
    filled,
    prompt_size,
    prompt_text,
)
from relay.core.usage import TokenUsage

BASE64 = "iVBORw0KGgoAAAANSUhEUg" * 2000


def words(text: str) -> int:
    """A counter as good as any: the engine of the estimate does not know tokens."""
    return len(text.split())


@pytest.mark.parametrize(
    ("body", "text", "media"),
    [
        ({"model": "m", "messages": [{"role": "user", "content": "one two"}]}, "one two", 0),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "one"}]}]}, "one", 0),
        ({"system": "be kind", "messages": [{"role": "user", "content": "hi"}]}, "hi\nbe kind", 0),
        ({"input": "say", "instructions": "loud"}, "say\nloud", 0),
        (
            {"contents": [{"parts": [{"text": "g"}]}], "systemInstruction": {"parts": [{"text": "s"}]}},
            "g\ns",
            0,
        ),
        ({"temperature": "not prompt", "messages": []}, "", 0),
    ],
)
def test_every_dialect_s_prompt_is_found(body: dict[str, object], text: str, media: int) -> None:
    found = prompt_text(orjson.dumps(body))
    assert (found.text, found.media) == (text, media)


MEDIA_PARTS = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
    {"type": "input_image", "image_url": f"data:image/png;base64,{BASE64}"},
    {"type": "input_file", "file_data": BASE64},
    {"inlineData": {"mimeType": "image/png", "data": BASE64}},
]


@pytest.mark.parametrize("part", MEDIA_PARTS)
def test_media_counts_flat_not_by_its_bytes(part: dict[str, object]) -> None:
    body = orjson.dumps(
        {"messages": [{"role": "user", "content": [part, {"type": "text", "text": "what is it"}]}]}
    )
    found = prompt_text(body)
    assert found.media == 1
    assert len(found.text) < 100
    assert filled(None, Evidence(prompt=body), words).input in range(MEDIA_TOKENS, MEDIA_TOKENS + 20)


def test_only_what_is_missing_is_estimated() -> None:
    """Anthropic's `message_start` gives the input; the stream then broke off."""
    evidence = Evidence(prompt=b'{"messages":[{"content":"a b c"}]}', received="d e", received_size=3)
    assert filled(TokenUsage(input=40, cached_input=10), evidence, words) == TokenUsage(
        input=40, cached_input=10, output=2
    )
    assert filled(None, evidence, words) == TokenUsage(input=3, output=2)


def test_text_beyond_what_was_kept_is_carried_on_in_proportion() -> None:
    kept = "word " * (RECEIVED_TEXT_MAX // 5)
    evidence = Evidence(received=kept, received_size=2 * len(kept))
    assert filled(TokenUsage(input=0), evidence, words).output == 2 * words(kept)


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_any_json_has_a_size(value: object) -> None:
    body = orjson.dumps({"messages": value}, option=orjson.OPT_NON_STR_KEYS) if _encodes(value) else b"{"
    prompt_text(body)


def test_absurd_depth_is_no_prompt() -> None:
    assert prompt_text(b'{"messages":' + b"[" * 100_000) == prompt_text(b"")


def _encodes(value: object) -> bool:
    try:
        orjson.dumps(value)
    except (orjson.JSONEncodeError, TypeError):
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}]},
        {"content": [{"type": "text", "text": "one two"}], "stop_reason": "end_turn"},
        {
            "output": [
                {
                    "type": "message",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "one two"}],
                }
            ]
        },
        {"candidates": [{"content": {"parts": [{"text": "one two"}]}, "finishReason": "STOP"}]},
    ],
)
def test_a_whole_answer_s_text_is_found_in_every_dialect(body: dict[str, object]) -> None:
    assert answer_text(orjson.dumps({"id": "x", "model": "m", **body})) == "one two"


def test_what_is_no_answer_has_no_text() -> None:
    assert answer_text(b"<html>") == answer_text(b"[1]") == answer_text(b"") == ""


@pytest.mark.parametrize("kind", [["string", "null"], {"of": "image"}, 7, None])
def test_a_type_that_is_no_word_is_read_over(kind: object) -> None:
    """JSON schemas of tools have lists there."""
    schema = {"type": "object", "properties": {"city": {"type": kind, "description": "which one"}}}
    body = orjson.dumps({"messages": [{"content": "hi"}], "tools": [{"function": {"parameters": schema}}]})
    assert prompt_text(body).text == "hi\nwhich one"
    assert answer_text(orjson.dumps({"content": [{"type": kind, "text": "ho"}]})) == "ho"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.fixed_dictionaries({"type": json_values, "source": json_values, "inlineData": json_values}))
def test_no_prompt_and_no_answer_is_too_odd_to_be_counted(part: dict[str, object]) -> None:
    body = orjson.dumps({"messages": [part], "content": [part]}, option=orjson.OPT_NON_STR_KEYS)
    prompt_text(body)
    answer_text(body)


@pytest.mark.parametrize("part", [*MEDIA_PARTS, {"bytesBase64Encoded": BASE64}, {"image": BASE64}])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_bound_of_a_prompt_has_its_text_by_size_and_each_media_part_flat(
    part: dict[str, object], count: int
) -> None:
    words = [{"type": "text", "text": "what is it? " * 1_000}]
    body = orjson.dumps({"messages": [{"role": "user", "content": words + [part] * count}]})
    expected = 12_000 + count * MEDIA_TOKENS * BYTES_PER_TOKEN
    assert prompt_size(body) in range(expected, expected + 100 + count * 100)


def test_a_body_that_escapes_slashes_and_has_spaces_between_is_read_too() -> None:
    body = b'{"image_url" : {"url" :\n"data:image\\/png;base64,' + b"ab\\/c" * 20_000 + b'"}}'
    assert prompt_size(body) < MEDIA_TOKENS * BYTES_PER_TOKEN + 100


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"content":"' + BASE64.encode() + b'"}]}',
        b'{"url":"' + b"https://example.com/a?b=" * 1_000 + b'"}',
        b'{"data":"' + b"x" * 64 + b" plain text " * 1_000 + b'"}',
        b'{"data":"' + "漢字".encode() * 2_000 + b'"}',
        b'{"data":"' + BASE64.encode(),
        b"\0\xff" * 5_000,
        b"{}",
        b"",
    ],
)
def test_what_may_be_text_is_bounded_by_its_size(body: bytes) -> None:
    assert prompt_size(body) == len(body)
