"""What a usage costs, and how much to set aside before it is known. Exact: integers, rounded once.

Fallback order of token parts (`billing.core.prices.FALLBACKS`; a part that nothing sets costs 0):

    input            –                        output           –
    cached_input     input                    reasoning        output
    cache_write_5m   input                    audio_output     output
    cache_write_1h   cache_write_5m, input    image_output     output
    audio_input      input
    image_input      input

Pictures: `image_rates` by size and quality, by size, by quality; then `per_image`; then the tokens of
`image_output`; then the dearest of `image_rates`, so that a size nobody foresaw is not free. Pictures that
are paid each are not paid in tokens as well. `per_call` counts once a request; seconds of audio and
characters count where the price has a rate for them.

    amount = Σ count × unit price × multiplier, rounded half-up to a nano-dollar

Sums are kept in femto-dollars (10^-15 USD): one token at a nano-dollar per million costs just one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from billing.core.billable import billable_tokens, prompt_tokens
from billing.core.prices import UNSET, PriceTerms, Rung, UnitPrice
from relay.core.usage import TokenUsage

FEMTO_PER_NANO = 1_000_000
ONE = Decimal(1)
_FEMTO = {"per_call": 1_000_000, "per_image": 1_000_000, "per_audio_second": 1_000}
"""Femto-dollars of one counted thing at a unit price of one nano-dollar; 1 where prices are per million."""
_PAID_EACH = UnitPrice(Decimal(0), 0, "paid per picture")
_NO_USAGE = TokenUsage()

_Counted = tuple[str, int, UnitPrice]
"""Part, how many, what one costs: what both the amount and its explanation are made of."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """part: what was counted. count: tokens, calls, pictures, characters; of `per_audio_second` milliseconds.
    subtotal_femto: before the multiplier, exact.
    """

    part: str
    count: int
    unit: UnitPrice
    subtotal_femto: int

    @property
    def subtotal_usd(self) -> Decimal:
        """Exact."""
        return _usd_from_femto(self.subtotal_femto)


@dataclass(frozen=True, slots=True)
class Cost:
    """amount_nano = Σ subtotals × multiplier, rounded half-up."""

    amount_nano: int
    lines: tuple[CostLine, ...]
    multiplier: Decimal


def cost_of(
    usage: TokenUsage | None,
    price: PriceTerms,
    multiplier: Decimal = ONE,
    *,
    size: str = "",
    quality: str = "",
) -> Cost:
    """usage: None = nothing but the call itself. size, quality: of the pictures, as asked or answered.

    Errors: ValueError for a multiplier below 0.
    """
    counted = _counted(usage or _NO_USAGE, price, size, quality)
    lines = tuple(CostLine(*one, _femto(*one)) for one in counted)
    return Cost(_rounded(counted, multiplier), lines, multiplier)


def amount_of(
    usage: TokenUsage | None,
    price: PriceTerms,
    multiplier: Decimal = ONE,
    *,
    size: str = "",
    quality: str = "",
) -> int:
    """Nano-dollars: the amount of `cost_of`, without the lines that explain it."""
    return _rounded(_counted(usage or _NO_USAGE, price, size, quality), multiplier)


def hold_of(
    price: PriceTerms,
    multiplier: Decimal = ONE,
    *,
    input_tokens: int,
    output_tokens: int,
    choices: int = 1,
    images: int = 0,
    size: str = "",
    quality: str = "",
    audio_ms: int = 0,
    characters: int = 0,
    extra_parts: Collection[str] = (),
) -> int:
    """Nano-dollars, rounded up: no usage within these bounds costs more.

    input_tokens: bound of the prompt. output_tokens: bound of one choice. images: how many may be made, in
    all. extra_parts: token parts beside text, caches and reasoning that the request can use, such as
    `audio_input`: then any token of that side may cost as much.
    """
    # A shorter prompt than the bound may stand on a lower, dearer rung.
    rungs = price.rungs
    if len(rungs) > 1:
        rungs = tuple(rung for rung in rungs if rung.above_input_tokens < max(input_tokens, 1))
    dearest_input = max([rung.dearest_input_nano for rung in rungs])
    dearest_output = max([rung.dearest_output_nano for rung in rungs])
    if extra_parts:
        dearest_input = max(dearest_input, _dearest_extra(rungs, extra_parts, "_input"))
        dearest_output = max(dearest_output, _dearest_extra(rungs, extra_parts, "_output"))
    total = input_tokens * dearest_input + output_tokens * choices * dearest_output
    if price.singles:
        total += _total(_singles(price, audio_ms, characters))
    if images:
        unit = price.picture(size, quality) or price.dearest_picture()
        total += 0 if unit is None else _femto("per_image", images, unit)
    over, under = _ratio(multiplier)
    return -(-total * over // (under * FEMTO_PER_NANO))


def _dearest_extra(rungs: Collection[Rung], parts: Collection[str], ending: str) -> int:
    return max(
        (rung.units[part].nano for rung in rungs for part in parts if part.endswith(ending)), default=0
    )


def _counted(usage: TokenUsage, price: PriceTerms, size: str, quality: str) -> list[_Counted]:
    rung = price.rung(prompt_tokens(usage))
    counted = [(part, count, rung.units[part]) for part, count in billable_tokens(usage).items()]
    pictures = _pictures(usage, price, rung, size, quality) if usage.images else None
    if pictures is not None:
        counted = [(part, n, _PAID_EACH if part == "image_output" else unit) for part, n, unit in counted]
        counted.append(pictures)
    return counted + _singles(price, usage.audio_ms or 0, usage.characters or 0)


def _pictures(usage: TokenUsage, price: PriceTerms, rung: Rung, size: str, quality: str) -> _Counted | None:
    if not usage.images or usage.images < 0:
        return None
    unit = price.picture(size, quality)
    if unit is None and (not usage.image_output or rung.units["image_output"] is UNSET):
        unit = price.dearest_picture()
    return None if unit is None else ("per_image", usage.images, unit)


def _singles(price: PriceTerms, audio_ms: int, characters: int) -> list[_Counted]:
    if not price.singles:
        return []
    counts = {"per_call": 1, "per_audio_second": max(audio_ms, 0), "per_character": max(characters, 0)}
    return [
        (part, count, price.singles[part])
        for part, count in counts.items()
        if count and part in price.singles
    ]


def _femto(part: str, count: int, unit: UnitPrice) -> int:
    return count * unit.nano * _FEMTO.get(part, 1)


def _total(counted: Collection[_Counted]) -> int:
    return sum([_femto(*one) for one in counted])


def _rounded(counted: Collection[_Counted], multiplier: Decimal) -> int:
    """Half-up, to a nano-dollar."""
    over, under = _ratio(multiplier)
    scale = under * FEMTO_PER_NANO
    return (2 * _total(counted) * over + scale) // (2 * scale)


def _ratio(multiplier: Decimal) -> tuple[int, int]:
    if multiplier is ONE:
        return 1, 1
    if multiplier < 0:
        raise ValueError(f"a multiplier must not be below 0: {multiplier}")
    return multiplier.as_integer_ratio()


def _usd_from_femto(femto: int) -> Decimal:
    # Made of its digits: scaleb would round to the context's precision.
    return Decimal((0, tuple(map(int, str(femto))), -15))
