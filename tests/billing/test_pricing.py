"""What a usage costs. Amounts are reckoned by hand, from the providers' own usage objects and price lists."""

import datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from billing.core.billable import billable_tokens, prompt_tokens
from billing.core.prices import FALLBACKS, TOKEN_PARTS, PriceParts, PriceRow, PriceTerms, Tier, UnitPrice
from billing.core.pricing import cost_of, hold_of
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.usage import TokenUsage

USD = Decimal


def terms(tiers=(), image_rates=None, **parts):
    return PriceTerms(
        parts=PriceParts(**{name: USD(value) for name, value in parts.items()}),
        tiers=tuple(tiers),
        image_rates={key: USD(value) for key, value in (image_rates or {}).items()},
    )


def tier(above, **parts):
    return Tier(above, PriceParts(**{name: USD(value) for name, value in parts.items()}))


GPT_4O = terms(input="2.5", cached_input="1.25", output="10")
# https://docs.anthropic.com/en/docs/about-claude/pricing
SONNET = terms(input="3", cached_input="0.3", cache_write_5m="3.75", cache_write_1h="6", output="15")
GPT_4O_AUDIO = terms(input="2.5", output="10", audio_input="40", audio_output="80")
# https://ai.google.dev/gemini-api/docs/pricing: prompts <= 200k tokens, prompts > 200k tokens
GEMINI_PRO = terms(
    [tier(200_000, input="2.5", output="15", cached_input="0.25")],
    input="1.25",
    output="10",
    cached_input="0.125",
)
# https://platform.openai.com/docs/pricing: text in 5, image in 10, image out 40
GPT_IMAGE = terms(input="5", image_input="10", image_output="40")
DALL_E_3 = terms(
    image_rates={
        "1024x1024/standard": "0.04",
        "1024x1792/standard": "0.08",
        "1024x1024/hd": "0.08",
        "1024x1792/hd": "0.12",
    }
)
WHISPER = terms(per_audio_second="0.0001")
TTS = terms(per_character="15")

REPORTS = {
    # https://platform.openai.com/docs/guides/prompt-caching: cached tokens are inside prompt_tokens.
    # 86 × 2.5 + 1920 × 1.25 + 300 × 10 = 5615 USD/M
    "OpenAI, cached inside": (
        GPT_4O,
        TokenUsage(input=2006, cached_input=1920, output=300, reasoning=0),
        5_615_000,
    ),
    # https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching: input_tokens 2048 stand beside
    # 1800 read and 248 written (148 for 5 min, 100 for 1 h), so the whole prompt is 4096.
    # 2048 × 3 + 1800 × 0.3 + 148 × 3.75 + 100 × 6 + 503 × 15 = 15384
    "Anthropic, cache apart": (
        SONNET,
        TokenUsage(input=4096, cached_input=1800, cache_write_5m=148, cache_write_1h=100, output=503),
        15_384_000,
    ),
    # https://platform.openai.com/docs/guides/reasoning: 1024 of 1186 output tokens. Not priced apart: as output.
    # 75 × 2.5 + 1186 × 10 = 12047.5
    "reasoning, as output": (
        GPT_4O,
        TokenUsage(input=75, cached_input=0, output=1186, reasoning=1024),
        12_047_500,
    ),
    # Priced apart, as some vendors do: 75 × 0.6 + 162 × 2.4 + 1024 × 4 = 4529.8
    "reasoning, apart": (
        terms(input="0.6", output="2.4", reasoning="4"),
        TokenUsage(input=75, output=1186, reasoning=1024),
        4_529_800,
    ),
    # https://platform.openai.com/docs/guides/audio: audio tokens inside both.
    # 10 × 2.5 + 50 × 40 + 20 × 10 + 130 × 80 = 12625
    "audio in and out": (
        GPT_4O_AUDIO,
        TokenUsage(input=60, audio_input=50, output=150, audio_output=130),
        12_625_000,
    ),
    # https://platform.openai.com/docs/api-reference/images/object: 50 in, of which 40 image; 50 out, all image.
    # 10 × 5 + 40 × 10 + 50 × 40 = 2450
    "pictures by tokens": (
        GPT_IMAGE,
        TokenUsage(input=50, image_input=40, output=50, image_output=50, images=1),
        2_450_000,
    ),
    # whisper-1: 0.006 USD a minute; 90.5 s = 0.00905 USD
    "seconds of audio": (WHISPER, TokenUsage(audio_ms=90_500), 9_050_000),
    # tts-1: 15 USD a million characters; 4096 = 0.06144 USD
    "characters": (TTS, TokenUsage(characters=4096), 61_440_000),
    "200k tokens are not above 200k": (GEMINI_PRO, TokenUsage(input=200_000, output=1000), 260_000_000),
    # 200001 × 2.5 + 1000 × 15 = 515002.5
    "one more is": (GEMINI_PRO, TokenUsage(input=200_001, output=1000), 515_002_500),
    # The prompt's length counts, not what of it is fresh: 1 × 2.5 + 200000 × 0.25 = 50002.5
    "a cached prompt is as long": (
        GEMINI_PRO,
        TokenUsage(input=200_001, cached_input=200_000, output=0),
        50_002_500,
    ),
    "nothing": (GPT_4O, TokenUsage(), 0),
    "nothing set": (terms(), TokenUsage(input=1000, output=1000), 0),
}


@pytest.mark.parametrize(("price", "usage", "nano"), REPORTS.values(), ids=REPORTS.keys())
def test_amounts(price, usage, nano):
    assert cost_of(usage, price).amount_nano == nano


def test_a_report_as_openai_sends_it():
    """Through the dialect that normalises it."""
    raw = (
        b'{"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,'
        b' "prompt_tokens_details": {"cached_tokens": 1920},'
        b' "completion_tokens_details": {"reasoning_tokens": 0}}'
    )
    assert cost_of(usage_from_raw(raw).tokens, GPT_4O).amount_nano == 5_615_000


@pytest.mark.parametrize(
    ("size", "quality", "usd"),
    [
        ("1024x1024", "standard", "0.04"),
        ("1024x1792", "hd", "0.12"),
        (" 1024X1792 ", "HD", "0.12"),
    ],
)
def test_pictures_by_size_and_quality(size, quality, usd):
    cost = cost_of(TokenUsage(images=3), DALL_E_3, size=size, quality=quality)
    assert cost.amount_nano == 3 * int(USD(usd) * 10**9)


PICTURES = [
    # rates, other parts, size, quality, picture tokens → USD of one picture, source
    ({"s/q": "1", "s": "2", "q": "3"}, {"per_image": "4"}, "s", "q", 0, "1", "image_rates s/q"),
    ({"s": "2", "q": "3"}, {"per_image": "4"}, "s", "q", 0, "2", "image_rates s"),
    ({"q": "3"}, {"per_image": "4"}, "s", "q", 0, "3", "image_rates q"),
    ({"x": "3"}, {"per_image": "4"}, "s", "q", 0, "4", "per_image"),
    ({}, {"per_image": "4"}, "", "", 0, "4", "per_image"),
    # Priced each, the tokens of the picture are not paid again.
    ({}, {"per_image": "4", "image_output": "40"}, "", "", 1000, "4", "per_image"),
    # No price each that fits: its tokens, which may cost what output costs.
    ({"x": "3"}, {"image_output": "40"}, "s", "q", 1000, "0.04", "image_output"),
    ({"x": "3"}, {"output": "30"}, "s", "q", 1000, "0.03", "output"),
    # Neither: not free.
    ({"x": "3", "y": "5"}, {}, "s", "q", 0, "5", "image_rates y, the dearest: none matches"),
    ({"x": "3", "y": "5"}, {"output": "30"}, "s", "q", 0, "5", "image_rates y, the dearest: none matches"),
]


@pytest.mark.parametrize("case", PICTURES)
def test_the_order_of_picture_prices(case):
    rates, parts, size, quality, tokens, usd, source = case
    usage = TokenUsage(input=0, output=tokens, image_output=tokens, images=1)
    cost = cost_of(usage, terms(image_rates=rates, **parts), size=size, quality=quality)
    assert cost.amount_nano == int(USD(usd) * 10**9)
    (paid,) = [line for line in cost.lines if line.subtotal_femto]
    assert paid.unit.source == source


def test_no_finished_picture_is_paid_by_what_was_drawn():
    price = terms(image_rates={"s": "2"}, image_output="40")
    assert cost_of(TokenUsage(output=1000, image_output=1000, images=0), price).amount_nano == 40_000_000


def test_a_call_is_paid_once_with_or_without_usage():
    price = terms(per_call="0.005", input="1")
    assert cost_of(None, price).amount_nano == 5_000_000
    assert cost_of(TokenUsage(input=1_000_000), price).amount_nano == 1_005_000_000


# ---- fallbacks

ORDER = {
    "input": ["input"],
    "cached_input": ["cached_input", "input"],
    "cache_write_5m": ["cache_write_5m", "input"],
    "cache_write_1h": ["cache_write_1h", "cache_write_5m", "input"],
    "audio_input": ["audio_input", "input"],
    "image_input": ["image_input", "input"],
    "output": ["output"],
    "reasoning": ["reasoning", "output"],
    "audio_output": ["audio_output", "output"],
    "image_output": ["image_output", "output"],
}


def test_each_token_part_has_its_order():
    assert set(ORDER) == set(TOKEN_PARTS) == set(FALLBACKS)


@pytest.mark.parametrize("part", ORDER)
def test_the_fallback_order(part):
    """Only what stands in the order is ever asked, and the first of it that is set counts."""
    for at, wanted in enumerate(ORDER[part]):
        before = ORDER[part][:at]
        values = {name: str(number + 1) for number, name in enumerate(TOKEN_PARTS) if name not in before}
        unit = terms(**values).rung(0).units[part]
        assert (unit.source, unit.usd) == (wanted, USD(values[wanted]))
    others = {name: "1" for name in TOKEN_PARTS if name not in ORDER[part]}
    unit = terms(**others).rung(0).units[part]
    assert (unit.source, unit.usd) == ("not set", 0)


def test_a_price_of_zero_is_set_and_falls_back_to_nothing():
    usage = TokenUsage(input=1000, cached_input=1000)
    assert cost_of(usage, terms(input="1", cached_input="0")).amount_nano == 0


def test_lines_say_where_their_price_comes_from():
    price = terms([tier(1000, input="2")], input="1", output="3", cached_input="0.5")
    usage = TokenUsage(input=2000, cached_input=500, cache_write_1h=100, output=10, reasoning=4)
    lines = {
        line.part: (line.count, line.unit.usd, line.unit.source, line.subtotal_usd)
        for line in cost_of(usage, price).lines
    }
    above = "input, above 1000 input tokens"
    assert lines == {
        "input": (1400, USD(2), above, USD("0.0028")),
        "cached_input": (500, USD("0.5"), "cached_input", USD("0.00025")),
        "cache_write_1h": (100, USD(2), above, USD("0.0002")),
        "output": (6, USD(3), "output", USD("0.000018")),
        "reasoning": (4, USD(3), "output", USD("0.000012")),
    }


def test_tiers_lie_one_over_the_other():
    """Given in any order; what a tier leaves out is as the tier below it has it."""
    price = terms([tier(300, input="9"), tier(100, input="4", output="5")], input="1", output="2")
    found = [
        (price.rung(tokens).units["input"].usd, price.rung(tokens).units["output"].usd)
        for tokens in (0, 100, 101, 300, 301)
    ]
    assert found == [(1, 2), (1, 2), (4, 5), (4, 5), (9, 5)]


# ---- what does not fit together

SPLITS = [
    # The prompt counts as it is, and no part of it below zero.
    (TokenUsage(input=100, cached_input=250), {"cached_input": 100}),
    (TokenUsage(input=100, cached_input=80, cache_write_5m=80), {"cached_input": 80, "cache_write_5m": 20}),
    (
        TokenUsage(input=100, cache_write_1h=60, cache_write_5m=60, audio_input=60),
        {"cache_write_1h": 60, "cache_write_5m": 40},
    ),
    (TokenUsage(input=100, cached_input=60, cache_write_1h=60), {"cached_input": 60, "cache_write_1h": 40}),
    # Audio that was cached counts as cached.
    (TokenUsage(input=100, cached_input=70, audio_input=50), {"cached_input": 70, "audio_input": 30}),
    (TokenUsage(output=10, reasoning=25), {"reasoning": 10}),
    (TokenUsage(output=10, reasoning=6, audio_output=6), {"reasoning": 6, "audio_output": 4}),
    # A whole that nobody reported is its parts.
    (TokenUsage(cached_input=5, audio_input=3), {"cached_input": 5, "audio_input": 3}),
    (TokenUsage(reasoning=7), {"reasoning": 7}),
    # One that was reported as 0 is 0.
    (TokenUsage(input=0, cached_input=5), {}),
    (TokenUsage(input=-5, output=-1, cached_input=-7, images=-1), {}),
    (TokenUsage(input=10, cached_input=-7), {"input": 10}),
]


@pytest.mark.parametrize(("usage", "parts"), SPLITS)
def test_nonsense_gives_no_negative_part(usage, parts):
    assert billable_tokens(usage) == parts
    every = dict.fromkeys([*TOKEN_PARTS, "per_image", "per_character", "per_audio_second"], "1")
    assert cost_of(usage, terms(**every)).amount_nano == 1000 * sum(parts.values())


def test_the_tier_goes_by_the_parts_where_the_whole_is_unknown():
    assert prompt_tokens(TokenUsage(cached_input=5, cache_write_5m=3, output=9)) == 8


# ---- rounding and multiplier


@pytest.mark.parametrize(
    ("price", "tokens", "multiplier", "nano"),
    [
        ("0.001", 0, "1", 0),
        ("0.0005", 1, "1", 1),  # half a nano-dollar goes up
        ("0.000499999", 1, "1", 0),
        ("0.0005", 1, "0.999999", 0),
        ("0.000000001", 499_999, "1", 0),
        ("0.000000001", 500_000, "1", 1),
        ("1", 1000, "1.25", 1_250_000),
        ("1", 1000, "0", 0),
        # More digits than a decimal context keeps.
        ("999999.999999999", 10**12, "999999.999999", None),
    ],
)
def test_one_rounding_at_the_very_end(price, tokens, multiplier, nano):
    exact = Fraction(price) * tokens * 1000 * Fraction(multiplier)
    cost = cost_of(TokenUsage(input=tokens), terms(input=price), USD(multiplier))
    assert cost.amount_nano == (2 * exact + 1) // 2
    assert nano is None or cost.amount_nano == nano


def test_parts_are_rounded_together_not_each():
    """Three parts of 0.4 nano-dollars are 1.2, not 0."""
    price = terms(input="0.0004", cached_input="0.0004", output="0.0004")
    assert cost_of(TokenUsage(input=2, cached_input=1, output=1), price).amount_nano == 1


def test_a_negative_multiplier_is_refused():
    with pytest.raises(ValueError, match="below 0"):
        cost_of(TokenUsage(input=1), GPT_4O, USD(-1))


@pytest.mark.parametrize("usd", ["-0.1", "NaN", "Infinity", "0.0000000001"])
def test_what_is_no_price_is_refused(usd):
    with pytest.raises(ValueError, match="is no price"):
        UnitPrice.of(USD(usd), "input")
    with pytest.raises(ValueError, match="is no price"):
        terms(image_rates={"s": usd})


def test_a_row_is_terms():
    row = PriceRow(
        id=1,
        model="m",
        group="",
        effective_from=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        parts=GPT_4O.parts,
    )
    assert cost_of(TokenUsage(input=2), row).amount_nano == 5_000


# ---- holds


def test_a_hold_takes_the_dearest_part_of_each_side():
    # 1000 × 6 (cache write, 1 h) + 2 × 500 × 15
    assert hold_of(SONNET, input_tokens=1000, output_tokens=500, choices=2) == 21_000_000


def test_a_hold_takes_the_dearest_tier_in_reach():
    # A tier may be cheaper than what lies below it.
    price = terms([tier(1000, input="1")], input="5")
    assert hold_of(price, input_tokens=900, output_tokens=0) == 4_500_000
    assert hold_of(price, input_tokens=2000, output_tokens=0) == 10_000_000
    dear = terms([tier(1000, input="5")], input="1")
    assert hold_of(dear, input_tokens=1000, output_tokens=0) == 1_000_000
    assert hold_of(dear, input_tokens=1001, output_tokens=0) == 5_005_000


def test_a_hold_counts_pictures_calls_audio_and_characters():
    assert hold_of(DALL_E_3, input_tokens=0, output_tokens=0, images=2, size="1024x1792", quality="hd") == (
        240_000_000
    )
    assert hold_of(DALL_E_3, input_tokens=0, output_tokens=0, images=2, size="auto") == 240_000_000
    assert hold_of(terms(per_call="0.5"), input_tokens=0, output_tokens=0, choices=4) == 500_000_000
    assert hold_of(WHISPER, input_tokens=0, output_tokens=0, audio_ms=60_000) == 6_000_000
    assert hold_of(TTS, input_tokens=0, output_tokens=0, characters=100) == 1_500_000


def test_a_hold_counts_media_tokens_where_they_can_come():
    bounds = {"input_tokens": 100, "output_tokens": 100}
    assert hold_of(GPT_4O_AUDIO, **bounds) == 1_250_000
    assert hold_of(GPT_4O_AUDIO, **bounds, extra_parts=["audio_input", "audio_output"]) == 12_000_000


def test_a_hold_rounds_up_and_takes_the_multiplier():
    assert hold_of(terms(input="0.0001"), input_tokens=1, output_tokens=0) == 1
    assert hold_of(GPT_4O, USD("1.5"), input_tokens=1000, output_tokens=0) == 3_750_000
