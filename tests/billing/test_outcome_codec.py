"""Outcomes as bytes: whole, bounded to the known fields, and never refused."""

import msgspec
import pytest

from billing.outcome_codec import UnreadableOutcome, outcome_decode, outcome_encode
from relay.core.outcomes import AttemptOutcome, RequestOutcome
from relay.core.usage import TokenUsage
from tests.factories.billing import attempt_make, outcome_make


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
