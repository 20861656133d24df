"""What a request is charged by: the prices that were in force when it was admitted.

A snapshot, kept with the open request: a price that changes while it runs does not touch it.
Must not import: models, the store.
"""

import datetime
from decimal import Decimal

import msgspec

from billing.core.charging import ESTIMATED, ChargedUsage
from billing.core.money import STORED_NANO_MAX
from billing.core.price_book import PriceBook
from billing.core.prices import MultiplierRow, PriceRow
from billing.core.pricing import ONE, amount_of, hold_of
from relay.core.dialects.members import text
from relay.core.estimate import input_bound
from relay.core.limits_asked import limits_asked
from relay.core.outcomes import RequestOutcome
from relay.core.request import RelayRequest
from relay.core.usage import TokenUsage

_PICTURE_PARTS = ("image_input", "image_output")
PICTURE_TOKENS = 6_500
"""A picture of the largest size and best quality on sale takes about so many output tokens."""

DEFAULT_OUTPUT_TOKENS = 4_096
"""Set aside for one answer when the client names no limit. What an answer exceeds, its checkpoints set
aside."""

RECORDING_BYTES_PER_MS = 4
"""Of sound that is sent: 32 kbit/s. Hardly anything is recorded with less, so it is no longer than that."""


class Terms(msgspec.Struct, frozen=True):
    """price: None = the request is free. book: for the operator's own cost. size, quality: of pictures."""

    price: PriceRow | None
    multiplier: MultiplierRow | None
    book: PriceBook
    admitted_at: datetime.datetime
    size: str = ""
    quality: str = ""

    @property
    def factor(self) -> Decimal:
        return ONE if self.multiplier is None else self.multiplier.multiplier

    def amount_nano(self, usage: TokenUsage | None) -> int:
        if self.price is None:
            return 0
        return amount_of(usage, self.price, self.factor, size=self.size, quality=self.quality)

    def charge_nano(self, charged: ChargedUsage, *, is_answered: bool) -> int:
        """is_answered: the tenant got an answer, whole or in part; without one no call is charged either."""
        if charged.usage is None and not is_answered:
            return 0
        return self.amount_nano(charged.usage)

    def operator_costs(self, outcome: RequestOutcome, charged: ChargedUsage) -> dict[int, int]:
        """Attempt number → nano-dollars, for attempts whose channel has a cost price."""
        costs: dict[int, int] = {}
        for attempt in outcome.attempts:
            row = self.book.cost_price(attempt.channel_id, attempt.model_sent, self.admitted_at)
            if row is None:
                continue
            usage = attempt.usage
            if attempt.committed and (usage is None or charged.source == ESTIMATED):
                usage = charged.usage
            is_paid = attempt.committed or usage is not None
            costs[attempt.number] = (
                amount_of(usage, row, size=self.size, quality=self.quality) if is_paid else 0
            )
        return costs


def terms_of(request: RelayRequest, book: PriceBook, now: datetime.datetime) -> Terms:
    group, model = request.caller.group, request.ask.model
    size, quality = _picture_asked(request) if request.is_image else ("", "")
    return Terms(
        price=book.price(model, group, now, path=request.path) if request.ask.is_charged else None,
        multiplier=book.multiplier(group, now),
        book=book,
        admitted_at=now,
        size=size,
        quality=quality,
    )


def hold_nano(request: RelayRequest, terms: Terms) -> int:
    """What is set aside before the request runs: its prompt and its longest answer at the dearest parts; what
    is to be spoken or heard. At most what a store can keep, which nobody has.
    """
    if terms.price is None:
        return 0
    asked, known = limits_asked(request.ask.fields), request.ask.known_usage
    draws = request.is_image
    hold = hold_of(
        terms.price,
        terms.factor,
        input_tokens=input_bound(request.prompt_bytes),
        output_tokens=_picture_tokens(terms) if draws else asked.output or DEFAULT_OUTPUT_TOKENS,
        choices=asked.choices,
        images=asked.choices if draws else 0,
        size=terms.size,
        quality=terms.quality,
        audio_ms=len(request.body) // RECORDING_BYTES_PER_MS if request.ask.is_form else 0,
        characters=(known.characters or 0) if known else 0,
        extra_parts=_PICTURE_PARTS if draws else (),
    )
    return min(hold, STORED_NANO_MAX)


def _picture_tokens(terms: Terms) -> int:
    """Of one picture, where it is not paid each."""
    assert terms.price is not None  # noqa: S101  the caller has looked
    return 0 if terms.price.picture(terms.size, terms.quality) else PICTURE_TOKENS


def _picture_asked(request: RelayRequest) -> tuple[str, str]:
    """https://platform.openai.com/docs/api-reference/images/create, as JSON or as a form."""
    fields = request.ask.fields
    return text(fields.get("size")), text(fields.get("quality"))
