"""Outcomes as bytes: whole, bounded to the known fields, and never refused."""

import msgspec
import pytest

from billing.admission.open_record import OpenRecord, Settlement
from billing.outcome_codec import (
    UnreadableOutcome,
    open_record_decode,
    open_record_encode,
    outcome_decode,
    outcome_encode,
    record_decode,
    settlement_decode,
    settlement_encode,
)
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage
from tests.factories.billing import attempt_make, open_record_make, outcome_make, settlement_make


def test_there_and_back():
    outcome = outcome_make()
    assert outcome_decode(outcome_encode(outcome)) == outcome


def test_payload_holds_nothing_but_the_fields_of_an_outcome():
    """Canary: whatever travels to the store is named here, and none of it is content."""
    payload = msgspec.msgpack.decode(outcome_encode(outcome_make()))
    assert set(payload) == {field.name for field in msgspec.structs.fields(RequestOutcome)}
    assert set(payload["attempts"][0]) == {field.name for field in msgspec.structs.fields(AttemptOutcome)}
    assert set(payload["usage"]) == {field.name for field in msgspec.structs.fields(TokenUsage)}
    assert set(payload["attempts"][0]["soft_errors"][0]) == {"error_class", "offset"}
    names = set(payload) | set(payload["attempts"][0])
    for word in (
        "prompt",
        "completion",
        "content",
        "body",
        "arguments",
        "secret",
        "credential",
        "authorization",
    ):
        assert not {name for name in names if word in name}


@pytest.mark.parametrize("payload", [b"", b"\x00", b"not an outcome", b"\x81\xa1a\x01"])
def test_bytes_that_are_no_outcome(payload):
    with pytest.raises(UnreadableOutcome):
        outcome_decode(payload)


def test_unknown_format_version_is_refused():
    with pytest.raises(UnreadableOutcome):
        outcome_decode(outcome_encode(outcome_make(format_version=2)))


def test_lone_surrogates_do_not_stop_an_outcome():
    outcome = outcome_make(model_asked="a\ud800b", attempts=(attempt_make(model_sent="\udfff"),))
    decoded = outcome_decode(outcome_encode(outcome))
    assert decoded.model_asked == "a?b"
    assert decoded.attempts[0].model_sent == "?"
    assert decoded.usage == outcome.usage


def test_integers_beyond_64_bits_are_cut():
    decoded = outcome_decode(outcome_encode(outcome_make(usage=TokenUsage(input=10**30, output=3))))
    assert decoded.usage == TokenUsage(input=2**63 - 1, output=3)


def test_a_foreign_object_leaves_as_its_class_and_is_refused_by_the_reader():
    payload = outcome_encode(outcome_make(model_asked=object()))
    assert b"object at" not in payload
    broken = outcome_encode(outcome_make(status=object()))
    with pytest.raises(UnreadableOutcome):
        outcome_decode(broken)


# ---- settlements and open records


def test_settlements_there_and_back():
    settlement = settlement_make(
        amount_nano=12, price_id=3, multiplier_id=4, operator_costs_nano={1: 5, 2: 0}, usage_method="o200k"
    )
    assert settlement_decode(settlement_encode(settlement)) == settlement
    assert record_decode(settlement_encode(settlement)) == settlement


def test_open_records_there_and_back():
    record = open_record_make(amount_nano=12, price_id=3)
    assert open_record_decode(open_record_encode(record)) == record
    assert record_decode(open_record_encode(record)) == record


@pytest.mark.parametrize(("usage", "source"), [(TokenUsage(input=1), "reported"), (None, "none")])
def test_what_the_previous_release_sent_is_a_settlement_without_a_price(usage, source):
    outcome = outcome_make(usage=usage)
    assert settlement_decode(outcome_encode(outcome)) == Settlement(outcome=outcome, usage_source=source)
    assert outcome_decode(settlement_encode(settlement_make(outcome=outcome))) == outcome


def test_payloads_hold_nothing_but_named_fields():
    """Canary, as above: what travels is named here."""
    payload = msgspec.msgpack.decode(settlement_encode(settlement_make()))
    assert set(payload) == {
        "outcome",
        "price_id",
        "multiplier_id",
        "amount_nano",
        "usage_source",
        "usage_method",
        "operator_costs_nano",
        "format_version",
    }
    payload = msgspec.msgpack.decode(open_record_encode(open_record_make()))
    assert set(payload) == {
        "draft",
        "price_id",
        "multiplier_id",
        "amount_nano",
        "is_estimated",
        "usage_method",
        "format_version",
    }


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode({}),
        settlement_encode(settlement_make(format_version=2)),
        settlement_encode(settlement_make(outcome=outcome_make(format_version=2))),
        open_record_encode(open_record_make(format_version=2)),
        open_record_encode(open_record_make(draft=outcome_make(format_version=2))),
    ],
)
def test_what_is_neither_is_refused(payload):
    for decode in (record_decode, settlement_decode, open_record_decode):
        with pytest.raises(UnreadableOutcome):
            decode(payload)


def test_one_is_not_taken_for_the_other():
    with pytest.raises(UnreadableOutcome):
        settlement_decode(open_record_encode(open_record_make()))
    with pytest.raises(UnreadableOutcome):
        open_record_decode(settlement_encode(settlement_make()))


def test_nothing_stops_a_settlement_from_leaving():
    outcome = outcome_make(model_asked="a\ud800b")
    decoded = settlement_decode(
        settlement_encode(
            settlement_make(outcome=outcome, amount_nano=10**30, operator_costs_nano={1: 10**30, 2: 7})
        )
    )
    assert decoded.outcome.model_asked == "a?b"
    assert (decoded.amount_nano, decoded.operator_costs_nano) == (2**63 - 1, {1: 2**63 - 1, 2: 7})
    record = open_record_encode(OpenRecord(draft=outcome, amount_nano=10**30))
    assert open_record_decode(record).amount_nano == 2**63 - 1
