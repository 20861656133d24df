"""LiteLLM's `model_prices_and_context_window.json` → entries of a price file.

Its prices are USD per token, ours per million. Of an entry we take what we can charge; what is left (batch
and priority prices, searches, storage, video) is counted and told. An entry without any price above 0 is left
out: in that list 0 mostly means that nobody knows, and here it would make the model free.
Prices by picture size stand in it as models of their own, `high/1024-x-1024/gpt-image-1`; they become the
image rates of the model, unless that is paid by the tokens of its pictures.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from billing.core.price_json import BadPriceJson
from gateway.price_files.tables import RawEntry
from gateway.provisioning.findings import Problem
from relay.core.selection import matches

_MILLION = Decimal(1_000_000)
_DIGITS = 12
_GRAIN = Decimal(1).scaleb(-9)
_TOKENS = {
    "input_cost_per_token": "input",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write_5m",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "audio_input",
    "output_cost_per_audio_token": "audio_output",
    "input_cost_per_image_token": "image_input",
    "output_cost_per_image_token": "image_output",
}
_OTHERS = {
    ("image_generation", "input_cost_per_image"): ("per_image", Decimal(1)),
    ("image_generation", "output_cost_per_image"): ("per_image", Decimal(1)),
    ("audio_transcription", "output_cost_per_second"): ("per_audio_second", Decimal(1)),
    ("audio_transcription", "input_cost_per_second"): ("per_audio_second", Decimal(1)),
    ("audio_speech", "input_cost_per_character"): ("per_character", _MILLION),
    ("rerank", "input_cost_per_query"): ("per_call", Decimal(1)),
}
"""(mode, field) → part and factor. Where two fields give one part, the later row that is not 0 wins."""
_EITHER = ("audio_transcription", "audio_speech")
_TIER = re.compile(r"(?P<name>.+)_above_(?P<thousands>\d{1,6})k_tokens")
_SIZED = re.compile(
    r"(?P<prefix>(?:[^/]+/)*?)(?:(?P<quality>low|medium|high|standard|hd)/)?"
    r"(?P<width>\d{1,5})-x-(?P<height>\d{1,5})/(?P<model>[^/]+)"
)
_PER_IMAGE = ("input_cost_per_image", "output_cost_per_image")
_PER_PIXEL = ("input_cost_per_pixel", "output_cost_per_pixel")
_SAMPLE = "sample_spec"


@dataclass(slots=True)
class LitellmPrices:
    """free: names without a price above 0. untaken: field → entries that have it above 0."""

    entries: list[RawEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    untaken: Counter[str] = field(default_factory=Counter)

    def warnings(self) -> Iterator[str]:
        if self.free:
            yield f"{len(self.free)} entries without a price above 0 are left out: {_some(self.free)}"
        if self.untaken:
            named = [f"{name} ({count})" for name, count in self.untaken.most_common()]
            yield f"prices that have no place here are left out: {_some(named)}"


def is_litellm(data: object) -> bool:
    """Whether it is a mapping of model names to objects of such fields."""
    if not isinstance(data, dict):
        return False
    entries = [value for value in data.values() if isinstance(value, dict)]
    known = {*_TOKENS, *_PER_IMAGE, *_PER_PIXEL, "litellm_provider"}
    return bool(entries) and any(known & entry.keys() for entry in entries)


def litellm_prices(data: Mapping[str, object], *, only: str, common: Mapping[str, object]) -> LitellmPrices:
    """only: a name or pattern of models. common: fields that every entry gets, as `group`."""
    found = LitellmPrices()
    rates: dict[str, dict[str, Decimal]] = {}
    models: dict[str, dict[str, object]] = {}
    for name, entry in data.items():
        sized = _SIZED.fullmatch(name)
        model = name if sized is None else f"{sized['prefix']}{sized['model']}"
        if name == _SAMPLE or not isinstance(entry, dict) or not matches(only, model):
            continue
        try:
            if sized is None:
                models[name] = _fields(entry, found.untaken)
            else:
                rates.setdefault(model, {}).update(_sized_rate(sized, entry))
        except BadPriceJson as error:
            found.problems.append(Problem(name[:200], str(error)))
    for model in sorted(models.keys() | rates.keys()):
        _add(found, model, models.get(model, {}), rates.get(model, {}), common)
    return found


def _add(
    found: LitellmPrices,
    model: str,
    fields: dict[str, object],
    rates: Mapping[str, Decimal],
    common: Mapping[str, object],
) -> None:
    if rates and not any(_has_price(fields.get(part)) for part in ("image_output", "output")):
        fields = fields | {"image_rates": dict(sorted(rates.items()))}
    if any(_has_price(value) for value in fields.values()):
        found.entries.append(RawEntry(model, "prices", {"model": model, **common, **fields}))
    else:
        found.free.append(model)


def _has_price(value: object) -> bool:
    """Below 0, too: the schema refuses it, with its place."""
    if isinstance(value, Decimal):
        return value != 0
    parts = value if isinstance(value, list) else [value]
    return any(
        isinstance(usd, Decimal) and usd != 0
        for part in parts
        if isinstance(part, dict)
        for usd in part.values()
    )


def _fields(entry: Mapping[str, object], untaken: Counter[str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    tiers: dict[int, dict[str, object]] = {}
    mode = entry.get("mode")
    others = {name: row for (asked, name), row in _OTHERS.items() if asked == mode}
    for name, value in entry.items():
        tier = _TIER.fullmatch(name)
        if name in _TOKENS:
            _put(fields, _TOKENS[name], value, _MILLION, name)
        elif tier is not None and tier["name"] in _TOKENS:
            above = int(tier["thousands"]) * 1000
            _put(tiers.setdefault(above, {}), _TOKENS[tier["name"]], value, _MILLION, name)
        elif name not in others and "cost" in name and _is_above_zero(value):
            untaken[name] += 1
    # Seconds and characters stand beside tokens as another way to reckon the same: not to be paid twice.
    if not any(_has_price(value) for value in fields.values()) or mode not in _EITHER:
        for name, (part, factor) in others.items():
            _put_other(fields, part, entry.get(name), factor, name)
    if mode == "image_generation" and "image_output" in fields:
        # Such models put out nothing but pictures, whether or not the upstream tells the tokens apart.
        fields.setdefault("output", fields["image_output"])
    tiers = {above: parts for above, parts in tiers.items() if parts}
    if tiers:
        fields["tiers"] = [{"above_input_tokens": above, **tiers[above]} for above in sorted(tiers)]
    return fields


def _put(fields: dict[str, object], part: str, value: object, factor: Decimal, name: str) -> None:
    """Null means that the list does not know it."""
    if value is not None:
        fields[part] = _rounded(_usd(value, name) * factor)


def _put_other(fields: dict[str, object], part: str, value: object, factor: Decimal, name: str) -> None:
    """A 0 is left out: it would make free what another field prices. So are pictures paid by their tokens."""
    if value is None or not _usd(value, name):
        return
    if part != "per_image" or not _has_price(fields.get("image_output")):
        _put(fields, part, value, factor, name)


def _usd(value: object, name: str) -> Decimal:
    """As the list writes it; whether it is a price is judged later. Errors: BadPriceJson."""
    if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
        with suppress(ArithmeticError):
            usd = Decimal(str(value).strip())
            if usd.is_finite() and usd.adjusted() < _DIGITS:
                return usd
    raise BadPriceJson(f"{name}: an amount in USD is expected")


def _sized_rate(sized: re.Match[str], entry: Mapping[str, object]) -> dict[str, Decimal]:
    """`1024x1024/high` → USD; empty if the entry has no such price."""
    width, height = int(sized["width"]), int(sized["height"])
    usd = max((_usd(entry[name], name) for name in _PER_IMAGE if name in entry), default=Decimal(0))
    if not usd:
        usd = sum((_usd(entry[name], name) for name in _PER_PIXEL if name in entry), Decimal(0))
        usd *= width * height
    key = f"{width}x{height}" + (f"/{sized['quality']}" if sized["quality"] else "")
    return {key: _rounded(usd)} if usd else {}


def _rounded(usd: Decimal) -> Decimal:
    return usd.quantize(_GRAIN, rounding=ROUND_HALF_UP).normalize()


def _is_above_zero(value: object) -> bool:
    with suppress(BadPriceJson):
        return _usd(value, "") > 0
    return False


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
