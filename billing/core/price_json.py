"""Tiers and image rates as JSON, which rows, files and forms share. Decimals are written as texts.

Reading takes numbers too; writing gives one form: tiers by length, amounts without trailing zeros.
Must not import: Django, a clock, models.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from billing.core.prices import TOKEN_PARTS, PriceParts, Tier

_DECIMALS = 9
_BELOW = Decimal(10) ** 6
_MOST_TIERS = 20
_MOST_RATES = 200
_LONGEST = 10**9
_ABOVE = "above_input_tokens"


class BadPriceJson(ValueError):
    """Says where in the value, and what is wrong there."""


def tiers_read(value: object) -> tuple[Tier, ...]:
    """`[{"above_input_tokens": 200000, "input": "2.5"}]` → tiers by rising length.

    Errors: BadPriceJson.
    """
    if not isinstance(value, list):
        raise BadPriceJson("a list of tiers is expected")
    if len(value) > _MOST_TIERS:
        raise BadPriceJson(f"at most {_MOST_TIERS} tiers are possible")
    tiers = [_tier(number, entry) for number, entry in enumerate(value, start=1)]
    tiers.sort(key=lambda tier: tier.above_input_tokens)
    for one, other in pairwise(tiers):
        if one.above_input_tokens == other.above_input_tokens:
            raise BadPriceJson(f"two tiers begin above {one.above_input_tokens} input tokens")
    return tuple(tiers)


def tiers_written(tiers: tuple[Tier, ...]) -> list[dict[str, object]]:
    return [
        {_ABOVE: tier.above_input_tokens, **dict(_written_parts(tier.parts))}
        for tier in sorted(tiers, key=lambda tier: tier.above_input_tokens)
    ]


def image_rates_read(value: object) -> dict[str, Decimal]:
    """`{"1024x1024/high": "0.167"}` → USD per picture, keys in lower case.

    Errors: BadPriceJson.
    """
    if not isinstance(value, dict):
        raise BadPriceJson("an object of size/quality and USD per picture is expected")
    if len(value) > _MOST_RATES:
        raise BadPriceJson(f"at most {_MOST_RATES} rates are possible")
    rates: dict[str, Decimal] = {}
    for name, amount in value.items():
        key = _rate_key(name)
        if key in rates:
            raise BadPriceJson(f"“{key}” is there twice")
        rates[key] = usd_read(amount, f"“{key}”")
    return rates


def image_rates_written(rates: Mapping[str, Decimal]) -> dict[str, str]:
    return {key: usd_written(rates[key]) for key in sorted(rates)}


def usd_read(value: object, where: str) -> Decimal:
    """where: begins the message. Errors: BadPriceJson."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise BadPriceJson(f"{where}: an amount in USD is expected")
    try:
        # str of a float is the shortest text that means it, which is what was typed.
        usd = Decimal(str(value).strip())
    except InvalidOperation:
        raise BadPriceJson(f"{where}: an amount in USD is expected") from None
    if not usd.is_finite() or usd < 0 or usd >= _BELOW:
        raise BadPriceJson(f"{where}: an amount from 0 to below {_BELOW} USD is expected")
    if usd != usd.quantize(Decimal(1).scaleb(-_DECIMALS)):
        raise BadPriceJson(f"{where}: at most {_DECIMALS} decimals are kept")
    return usd


def usd_written(usd: Decimal) -> str:
    """Plain digits: `2.5`, `0`, `100`."""
    text = f"{usd:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _tier(number: int, entry: object) -> Tier:
    where = f"tier {number}"
    if not isinstance(entry, dict):
        raise BadPriceJson(f"{where}: an object is expected")
    unknown = [str(name) for name in entry if name not in {_ABOVE, *TOKEN_PARTS}]
    if unknown:
        known = ", ".join(TOKEN_PARTS)
        raise BadPriceJson(f"{where}: “{unknown[0][:60]}” is none of {_ABOVE}, {known}")
    above = entry.get(_ABOVE)
    if isinstance(above, bool) or not isinstance(above, int) or not 0 < above <= _LONGEST:
        raise BadPriceJson(f"{where}: {_ABOVE} must be a whole number from 1 to {_LONGEST}")
    parts = {name: usd_read(entry[name], f"{where}, {name}") for name in TOKEN_PARTS if name in entry}
    if not parts:
        raise BadPriceJson(f"{where}: at least one price is expected")
    return Tier(above, PriceParts(**parts))


def _written_parts(parts: PriceParts) -> Iterator[tuple[str, str]]:
    for name in TOKEN_PARTS:
        usd: Decimal | None = getattr(parts, name)
        if usd is not None:
            yield name, usd_written(usd)


def _rate_key(name: object) -> str:
    key = name.strip().lower() if isinstance(name, str) else ""
    words = key.split("/")
    if not 1 <= len(words) <= 2 or not all(word and word.isprintable() and " " not in word for word in words):
        raise BadPriceJson(f"“{str(name)[:60]}” is no size/quality, size or quality")
    if len(key) > 64:
        raise BadPriceJson(f"“{key[:60]}…” is longer than 64 letters")
    return key
