"""What is valued on the loop, and what waits for a thread because its tokens must be counted."""

import dataclasses
import datetime
from decimal import Decimal

import msgspec
import pytest

from billing.core.money import STORED_NANO_MAX
from billing.core.price_book import PriceBook
from billing.core.prices import MultiplierRow, PriceParts, PriceRow
from billing.outcome_codec import settlement_decode
from billing.terms import Terms
from billing.valuation import Reported, settled_at_once, settled_record
from relay.core.end_reasons import EndReason
from relay.core.estimate import NO_EVIDENCE, Evidence
from relay.core.usage import TokenUsage
from tests.factories.billing import attempt_make, outcome_make

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PRICE = PriceRow(id=7, model="*", group="", effective_from=NOW, parts=PriceParts(output=Decimal(2)))
SECRET = "a pearl of wisdom"


def reported(usage: TokenUsage | None, *, price: PriceRow | None = PRICE) -> Reported:
    return Reported(
        outcome_make(usage=usage, attempts=(attempt_make(usage=usage, committed=True),)),
        Evidence(prompt=SECRET.encode(), received=SECRET, received_size=len(SECRET)),
        Terms(price=price, multiplier=None, book=PriceBook(), admitted_at=NOW),
        account_id=3,
    )


def test_a_reported_usage_is_valued_at_once():
    one = reported(TokenUsage(input=5, output=10))
    record = settled_at_once(one)
    assert record == settled_record(one)
    assert (record.account_id, record.amount_nano) == (3, 20_000)


@pytest.mark.parametrize("usage", [None, TokenUsage(input=5)])
def test_what_must_be_counted_is_left_to_a_thread(usage):
    one = reported(usage)
    assert settled_at_once(one) is None
    record = settled_record(one, count=lambda _text: 4)
    assert record.amount_nano == 8_000
    assert settlement_decode(record.payload).usage_source == "estimated"


def test_what_nobody_pays_is_never_counted():
    record = settled_at_once(reported(None, price=None))
    assert record is not None
    assert settlement_decode(record.payload).usage_source == "none"


def test_a_counter_that_fails_leaves_an_estimate_by_size(caplog):
    def broken(_text: str) -> int:
        raise RuntimeError(SECRET)

    record = settled_record(reported(None), count=broken)
    assert settlement_decode(record.payload).usage_method == "bytes"
    assert SECRET not in caplog.text


def test_the_text_of_a_report_does_not_show_what_was_said():
    assert SECRET not in repr(reported(None))


class UnreadableTerms(Terms, frozen=True):
    """Stands for any bug in what values an outcome."""

    def charge_nano(self, charged: object, *, is_answered: bool) -> int:
        raise ArithmeticError(SECRET)


def test_an_outcome_that_cannot_be_valued_is_settled_without_an_amount(caplog):
    usage = TokenUsage(input=5, output=10)
    terms = UnreadableTerms(price=PRICE, multiplier=None, book=PriceBook(), admitted_at=NOW)
    one = msgspec.structs.replace(reported(usage), terms=terms)
    record = settled_at_once(one)
    assert record is not None
    assert (record.account_id, record.amount_nano) == (3, 0)
    assert settlement_decode(record.payload).outcome == one.outcome
    assert "ArithmeticError" in caplog.text
    assert SECRET not in caplog.text


def test_tools_whose_schema_has_lists_of_types_are_counted():
    prompt = b'{"messages":[{"content":"hi"}],"tools":[{"parameters":{"a":{"type":["string","null"]}}}]}'
    one = msgspec.structs.replace(reported(None), evidence=Evidence(prompt, "some answer", 11))
    record = settled_record(one, count=lambda _text: 4)
    assert record.amount_nano == 8_000
    assert settlement_decode(record.payload).usage_method == "o200k"


def test_an_absurd_amount_cannot_stop_the_store_and_stays_in_the_settlement():
    """Redis counts in 64 bits: one amount beyond them would refuse the whole batch, again and again."""
    dear = msgspec.structs.replace(
        reported(TokenUsage(input=1, output=10**9)),
        terms=Terms(
            price=PRICE,
            multiplier=MultiplierRow(id=1, group="g", effective_from=NOW, multiplier=Decimal(999_999)),
            book=PriceBook(),
            admitted_at=NOW,
        ),
    )
    record = settled_record(dear)
    assert record.amount_nano == STORED_NANO_MAX
    assert settlement_decode(record.payload).amount_nano == 10**9 * 2_000 * 999_999


def test_speech_whose_client_left_is_paid_once_sound_has_begun():
    def left(usage: TokenUsage | None, *, committed: bool) -> int:
        attempt = attempt_make(usage=usage, committed=committed, terminal_seen=False)
        outcome = outcome_make(usage=usage, attempts=(attempt,), end_reason=EndReason.CLIENT_DISCONNECTED)
        price = dataclasses.replace(PRICE, parts=PriceParts(per_character=Decimal(15)))
        one = msgspec.structs.replace(reported(usage, price=price), outcome=outcome, evidence=NO_EVIDENCE)
        return settled_record(one, count=len).amount_nano

    assert left(TokenUsage(characters=4_000), committed=True) == 4_000 * 15_000
    assert left(None, committed=False) == 0
