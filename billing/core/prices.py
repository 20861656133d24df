"""A price as pure code sees it, with every part resolved: what it costs, and where that comes from.

A part that a price leaves open costs what another part costs. `FALLBACKS` is the written order; what no part
of it sets costs nothing. A tier lays its parts over the price's own before that, so a tier that sets `input`
alone also moves what falls back to `input`.

Must not import: Django, a clock, models.
"""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal

from billing.core.money import NANO_PER_USD

FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "input": (),
    "cached_input": ("input",),
    "cache_write_5m": ("input",),
    "cache_write_1h": ("cache_write_5m", "input"),
    "audio_input": ("input",),
    "image_input": ("input",),
    "output": (),
    "reasoning": ("output",),
    "audio_output": ("output",),
    "image_output": ("output",),
}
"""Token part → the parts asked after it, in this order."""
TOKEN_PARTS = tuple(FALLBACKS)
_ANY_INPUT = ("input", "cached_input", "cache_write_5m", "cache_write_1h")
_ANY_OUTPUT = ("output", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceParts:
    """USD per million tokens; `per_call`, `per_image`, `per_audio_second` USD each; `per_character` USD per
    million characters. None = falls back to another part.
    """

    input: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None
    reasoning: Decimal | None = None
    audio_input: Decimal | None = None
    audio_output: Decimal | None = None
    image_input: Decimal | None = None
    image_output: Decimal | None = None
    per_call: Decimal | None = None
    per_image: Decimal | None = None
    per_audio_second: Decimal | None = None
    per_character: Decimal | None = None


PART_NAMES = tuple(part.name for part in fields(PriceParts))


@dataclass(frozen=True, slots=True)
class Tier:
    """Other token prices for prompts longer than `above_input_tokens`; None = as without this tier."""

    above_input_tokens: int
    parts: PriceParts


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """usd: as the price row has it. nano: the same in nano-dollars. source: where in the row it stands."""

    usd: Decimal
    nano: int
    source: str

    @classmethod
    def of(cls, usd: Decimal, source: str) -> "UnitPrice":
        """Errors: ValueError for a price below zero, or finer than a nano-dollar."""
        over, under = (usd * NANO_PER_USD).as_integer_ratio() if usd.is_finite() else (-1, 1)
        if over < 0 or under != 1:
            raise ValueError(f"{usd} is no price: it must be 0 or more, with at most 9 decimals")
        return cls(usd, over, source)


UNSET = UnitPrice(Decimal(0), 0, "not set")


@dataclass(frozen=True, slots=True)
class Rung:
    """What each token part costs for prompts longer than `above_input_tokens`."""

    above_input_tokens: int
    units: Mapping[str, UnitPrice]
    dearest_input_nano: int = field(init=False)
    """Of what any request can use: text and caches."""
    dearest_output_nano: int = field(init=False)
    """Of what any request can use: text and reasoning."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dearest_input_nano", max(self.units[part].nano for part in _ANY_INPUT))
        object.__setattr__(self, "dearest_output_nano", max(self.units[part].nano for part in _ANY_OUTPUT))


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTerms:
    """All that a price says. image_rates: `size/quality`, `size` or `quality` → USD per picture.

    Errors: ValueError for an amount that is no price.
    """

    parts: PriceParts
    tiers: tuple[Tier, ...] = ()
    image_rates: Mapping[str, Decimal] = field(default_factory=dict)
    rungs: tuple[Rung, ...] = field(init=False, repr=False, compare=False)
    """By rising length of the prompt; the first is the price without any tier."""
    singles: Mapping[str, UnitPrice] = field(init=False, repr=False, compare=False)
    """The parts that are no tokens, as far as they are set."""
    pictures: Mapping[str, UnitPrice] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rungs", tuple(_rungs(self.parts, self.tiers)))
        object.__setattr__(self, "singles", dict(_singles(self.parts)))
        rates = {key: UnitPrice.of(usd, f"image_rates {key}") for key, usd in self.image_rates.items()}
        object.__setattr__(self, "pictures", rates)

    def rung(self, input_tokens: int) -> Rung:
        found = self.rungs[0]
        for rung in self.rungs[1:]:
            if input_tokens > rung.above_input_tokens:
                found = rung
        return found

    def picture(self, size: str, quality: str) -> UnitPrice | None:
        """What one picture costs: by size and quality, by size, by quality, else `per_image`, else None."""
        if self.pictures:
            size, quality = size.strip().lower(), quality.strip().lower()
            for key in (f"{size}/{quality}", size, quality):
                if key in self.pictures:
                    return self.pictures[key]
        return self.singles.get("per_image")

    def dearest_picture(self) -> UnitPrice | None:
        if not self.pictures:
            return None
        dearest = max(self.pictures.values(), key=lambda unit: unit.nano)
        return UnitPrice(dearest.usd, dearest.nano, f"{dearest.source}, the dearest: none matches")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow(PriceTerms):
    """One row. model: a name, a pattern with `*`, or a path that begins with `/`. group: empty for all."""

    id: int
    model: str
    group: str
    effective_from: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPriceRow(PriceTerms):
    """What the operator pays on one channel. model: the name sent upstream, or a pattern."""

    id: int
    channel_id: int
    model: str
    effective_from: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplierRow:
    """Every price of the group times `multiplier`."""

    id: int
    group: str
    effective_from: datetime.datetime
    multiplier: Decimal


def _rungs(parts: PriceParts, tiers: tuple[Tier, ...]) -> Iterator[Rung]:
    """A tier leaves what it does not set as the tier below it, or the row itself, has it."""
    own = _own(parts, "")
    yield Rung(0, _resolved(own))
    for tier in sorted(tiers, key=lambda tier: tier.above_input_tokens):
        own |= _own(tier.parts, f", above {tier.above_input_tokens} input tokens")
        yield Rung(tier.above_input_tokens, _resolved(own))


def _own(parts: PriceParts, where: str) -> dict[str, UnitPrice]:
    amounts = ((name, getattr(parts, name)) for name in TOKEN_PARTS)
    return {name: UnitPrice.of(usd, f"{name}{where}") for name, usd in amounts if usd is not None}


def _resolved(own: Mapping[str, UnitPrice]) -> dict[str, UnitPrice]:
    return {
        part: next((own[name] for name in (part, *others) if name in own), UNSET)
        for part, others in FALLBACKS.items()
    }


def _singles(parts: PriceParts) -> Iterator[tuple[str, UnitPrice]]:
    for name in PART_NAMES:
        usd: Decimal | None = getattr(parts, name)
        if name not in FALLBACKS and usd is not None:
            yield name, UnitPrice.of(usd, name)
