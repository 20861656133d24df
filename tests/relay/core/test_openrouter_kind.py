"""OpenRouter's kind: OpenAI's in all but the usage that it tells afterwards."""

import orjson
import pytest

from relay.core.upstream_kinds import KINDS_THAT_TELL_USAGE_LATER, UPSTREAM_KINDS
from relay.core.usage import TokenUsage

KIND = KINDS_THAT_TELL_USAGE_LATER["openrouter"]

DOCUMENTED = {
    "id": "gen-3bhGkxlo4XFrqiabUM7NDtwDzWwG",
    "total_cost": 0.0015,
    "created_at": "2024-07-15T23:33:19.433273+00:00",
    "model": "sao10k/l3-stheno-8b",
    "streamed": True,
    "cancelled": False,
    "tokens_prompt": 11,
    "tokens_completion": 26,
    "native_tokens_prompt": 10,
    "native_tokens_completion": 25,
    "native_tokens_completion_images": 0,
    "native_tokens_reasoning": 5,
    "native_tokens_cached": 3,
    "num_media_prompt": 1,
    "num_media_completion": None,
    "usage": 0.0015,
    "is_byok": False,
}
"""The members of the example in OpenRouter's reference; its two kinds of counts made to differ."""
UNCOUNTED = {name: None for name in DOCUMENTED if "tokens" in name}


def told(**members) -> TokenUsage | None:
    return KIND.usage_told(orjson.dumps({"data": {**DOCUMENTED, **members}}))


def test_it_is_openais_kind_otherwise():
    ours, openai = UPSTREAM_KINDS["openrouter"], UPSTREAM_KINDS["openai"]
    assert ours.dialects == openai.dialects
    assert ours.credentials("sk-or-v1-1") == openai.credentials("sk-or-v1-1")
    base_url = "https://openrouter.ai/api"
    assert ours.url(base_url, "/v1/chat/completions", "") == f"{base_url}/v1/chat/completions"


def test_no_other_kind_tells_usage_later():
    assert set(KINDS_THAT_TELL_USAGE_LATER) == {"openrouter"}


@pytest.mark.parametrize(
    "base_url", ["https://openrouter.ai/api", "https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/"]
)
def test_where_it_is_asked(base_url):
    asked = KIND.usage_url(base_url, "gen-17&x=/é")
    assert asked == "https://openrouter.ai/api/v1/generation?id=gen-17%26x%3D%2F%C3%A9"


@pytest.mark.parametrize(
    ("members", "usage"),
    [
        ({}, TokenUsage(input=10, cached_input=3, output=25, reasoning=5, image_output=0)),
        (UNCOUNTED | {"tokens_prompt": 11, "tokens_completion": 26}, TokenUsage(input=11, output=26)),
        ({**UNCOUNTED, "native_tokens_prompt": 4, "tokens_completion": 0}, TokenUsage(input=4, output=0)),
        ({**UNCOUNTED, "native_tokens_prompt": 4.0, "native_tokens_completion": 521.0}, TokenUsage(4, output=521)),
        (
            {**UNCOUNTED, "tokens_prompt": 4, "tokens_completion": 9, "native_tokens_completion_images": 7},
            TokenUsage(input=4, output=9, image_output=7),
        ),
    ],
)  # fmt: skip
def test_native_counts_are_usage(members, usage):
    assert told(**members) == usage


@pytest.mark.parametrize(
    "members",
    [
        UNCOUNTED,
        {**UNCOUNTED, "native_tokens_prompt": 4},
        {**UNCOUNTED, "native_tokens_completion": 4},
        {**UNCOUNTED, "native_tokens_prompt": 0, "native_tokens_completion": 0},
    ],
)
def test_a_generation_that_is_not_counted_yet_tells_nothing(members):
    assert told(**members) is None


@pytest.mark.parametrize("count", [-1, 1.5, 10**9 + 1, 1e300, "12", True, [1], {}])
def test_what_is_no_count_is_refused(count):
    with pytest.raises(ValueError):
        told(native_tokens_completion=count)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"data": null}', b'{"error": {"code": 404}}', b"\xff"),
        b'{"data": {"tokens_prompt": NaN}}',
        b'{"data": {"native_tokens_prompt": 1' + b"0" * 30 + b"}}",
        b"[" * 100_000,
        b'{"data":' * 100_000,
    ],
)
def test_what_is_no_answer_is_refused(body):
    with pytest.raises(ValueError):
        KIND.usage_told(body)
