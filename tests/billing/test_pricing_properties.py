"""What holds for every price and every usage, nonsense included."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing.core.billable import billable_tokens
from billing.core.price_json import image_rates_read, image_rates_written, tiers_read, tiers_written
from billing.core.prices import TOKEN_PARTS, PriceParts, PriceTerms, Tier
from billing.core.pricing import amount_of, cost_of, hold_of
from relay.core.usage import TokenUsage

INPUT_PARTS = ("cached_input", "cache_write_5m", "cache_write_1h", "audio_input", "image_input")
OUTPUT_PARTS = ("reasoning", "audio_output", "image_output")

# A busy machine is no failure.
steady = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
usd = st.decimals(0, Decimal("999999.999999999"), places=9)
multipliers = st.decimals(0, Decimal(1000), places=6)
counts = st.none() | st.integers(-5, 2_000_000)
small = st.integers(0, 2_000_000)
part_values = st.builds(PriceParts, **{name: st.none() | usd for name in PriceParts.__dataclass_fields__})
token_values = st.builds(PriceParts, **{name: st.none() | usd for name in TOKEN_PARTS})
tiers = st.lists(
    st.builds(Tier, st.integers(1, 3_000_000), token_values),
    max_size=3,
    unique_by=lambda tier: tier.above_input_tokens,
).map(tuple)
rates = st.dictionaries(st.sampled_from(["1024x1024/high", "1024x1024", "high", "low"]), usd)
prices = st.builds(PriceTerms, parts=part_values, tiers=tiers, image_rates=rates)
flat_prices = st.builds(PriceTerms, parts=part_values, image_rates=rates)
usages = st.builds(TokenUsage, **dict.fromkeys(TokenUsage.__struct_fields__, counts))
looks = st.sampled_from(["", "1024x1024", "auto"]), st.sampled_from(["", "high", "low"])


@steady
@given(usages, prices, multipliers, *looks)
def test_nothing_is_negative_and_the_lines_make_up_the_amount(usage, price, multiplier, size, quality):
    cost = cost_of(usage, price, multiplier, size=size, quality=quality)
    assert all(line.count > 0 and line.subtotal_femto >= 0 for line in cost.lines)
    exact = (
        sum((Fraction(line.subtotal_usd) for line in cost.lines), Fraction(0)) * Fraction(multiplier) * 10**9
    )
    assert cost.amount_nano == (2 * exact + 1) // 2, "half-up, and once"
    assert amount_of(usage, price, multiplier, size=size, quality=quality) == cost.amount_nano
    for line in cost.lines:
        scale = {"per_call": 1, "per_image": 1, "per_audio_second": 1000}.get(line.part, 10**6)
        assert Fraction(line.subtotal_usd) == Fraction(line.unit.usd) * line.count / scale


@steady
@given(usages)
def test_the_parts_add_up_to_the_wholes(usage):
    parts = billable_tokens(usage)
    assert all(count > 0 for count in parts.values())
    for whole, names in (("input", INPUT_PARTS), ("output", OUTPUT_PARTS)):
        total = sum(count for part, count in parts.items() if part in {whole, *names})
        reported = getattr(usage, whole)
        assert total == max(reported, 0) if reported is not None else total >= 0


disjoint = st.fixed_dictionaries(dict.fromkeys(TOKEN_PARTS, small))


@steady
@given(disjoint, st.fixed_dictionaries(dict.fromkeys(TOKEN_PARTS, usd)), multipliers)
def test_a_sound_usage_costs_the_sum_of_its_parts(disjoint, values, multiplier):
    """Reckoned another way: parts that are known apart, put together, are charged apart."""
    whole_in = disjoint["input"] + sum(disjoint[name] for name in INPUT_PARTS)
    whole_out = disjoint["output"] + sum(disjoint[name] for name in OUTPUT_PARTS)
    usage = TokenUsage(**(disjoint | {"input": whole_in, "output": whole_out}))
    exact = sum(Fraction(values[name]) * disjoint[name] for name in TOKEN_PARTS) * 1000 * Fraction(multiplier)
    price = PriceTerms(parts=PriceParts(**values))
    assert cost_of(usage, price, multiplier).amount_nano == (2 * exact + 1) // 2


@steady
@given(
    usages,
    flat_prices,
    multipliers,
    st.sampled_from(["input", "output", "audio_ms", "characters"]),
    st.integers(0, 10**6),
)
def test_more_never_costs_less(usage, price, multiplier, name, more):
    """Without tiers, which may make a longer prompt cheaper."""
    assume(getattr(usage, name) is not None)
    larger = TokenUsage(
        **{field: getattr(usage, field) for field in usage.__struct_fields__}
        | {name: getattr(usage, name) + more}
    )
    before, after = (cost_of(one, price, multiplier).amount_nano for one in (usage, larger))
    assert after >= before


@steady
@given(usages, prices, multipliers, multipliers)
def test_a_larger_multiplier_never_costs_less(usage, price, one, other):
    low, high = sorted((one, other))
    assert cost_of(usage, price, low).amount_nano <= cost_of(usage, price, high).amount_nano
    assert cost_of(usage, price, Decimal(0)).amount_nano == 0


@steady
@given(
    prices,
    multipliers,
    disjoint,
    st.tuples(st.integers(0, 3), small, small),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    st.tuples(*looks),
)
def test_no_usage_within_the_bounds_costs_more_than_the_hold(  # noqa: PLR0917
    price, multiplier, disjoint, others, slack, look
):
    images, audio_ms, characters = others
    size, quality = look
    whole_in = disjoint["input"] + sum(disjoint[name] for name in INPUT_PARTS)
    whole_out = disjoint["output"] + sum(disjoint[name] for name in OUTPUT_PARTS)
    usage = TokenUsage(
        **(disjoint | {"input": whole_in, "output": whole_out}),
        images=images,
        audio_ms=audio_ms,
        characters=characters,
    )
    hold = hold_of(
        price,
        multiplier,
        input_tokens=whole_in + slack[0],
        output_tokens=whole_out + slack[1],
        images=images,
        size=size,
        quality=quality,
        audio_ms=audio_ms,
        characters=characters,
        extra_parts=("audio_input", "image_input", "audio_output", "image_output"),
    )
    assert cost_of(usage, price, multiplier, size=size, quality=quality).amount_nano <= hold


@steady
@given(
    st.lists(
        st.builds(
            Tier,
            st.integers(1, 10**9),
            token_values.filter(lambda parts: parts != PriceParts()),
        ),
        max_size=5,
        unique_by=lambda tier: tier.above_input_tokens,
    ),
    rates,
)
def test_json_gives_back_what_was_written(tiers, rates):
    ordered = tuple(sorted(tiers, key=lambda tier: tier.above_input_tokens))
    assert tiers_read(tiers_written(tuple(tiers))) == ordered
    assert image_rates_read(image_rates_written(rates)) == rates
