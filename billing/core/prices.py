"""A price as pure code sees it.

Must not import: Django, a clock, models.
"""

import datetime
from dataclasses import dataclass
from decimal import Decimal


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


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One open row. model: a name or a pattern with `*`. group: empty for all."""

    id: int
    model: str
    group: str
    effective_from: datetime.datetime
    parts: PriceParts
