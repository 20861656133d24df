"""`Settlement` and `OpenRecord` ↔ bytes, as they travel through the admission store. Shape: MessagePack, one
map. A bare `RequestOutcome`, which the previous release sent, is read as a settlement without a price.

Must not import: Django, models.
"""

from typing import Any, TypeVar

import msgspec

from billing.admission.open_record import RECORD_FORMAT, OpenRecord, Settlement
from relay.core.outcomes import FORMAT_VERSION, RequestOutcome

_INTEGER_MAX = 2**63 - 1

_encoder = msgspec.msgpack.Encoder()
_settlements = msgspec.msgpack.Decoder(Settlement)
_open_records = msgspec.msgpack.Decoder(OpenRecord)
_outcomes = msgspec.msgpack.Decoder(RequestOutcome)

T = TypeVar("T", RequestOutcome, Settlement, OpenRecord)


class UnreadableOutcome(Exception):
    """The bytes are none of these, or one of a format this code does not know."""


def outcome_encode(outcome: RequestOutcome) -> bytes:
    """Never fails: what MessagePack cannot carry is replaced.

    A lone surrogate becomes `?`, an integer beyond 64 bits the nearest one within, a foreign object its
    class's name (which the reader then refuses, so that the outcome is kept as dead instead of lost).
    """
    return _encode(outcome)


def settlement_encode(settlement: Settlement) -> bytes:
    """Never fails, as `outcome_encode`."""
    return _encode(settlement)


def open_record_encode(record: OpenRecord) -> bytes:
    """Never fails, as `outcome_encode`."""
    return _encode(record)


def outcome_decode(payload: bytes) -> RequestOutcome:
    """The outcome of a settlement, or a bare one. Errors: UnreadableOutcome."""
    return settlement_decode(payload).outcome


def settlement_decode(payload: bytes) -> Settlement:
    """Errors: UnreadableOutcome."""
    try:
        settlement = _settlements.decode(payload)
    except msgspec.MsgspecError:
        return settlement_without_price(_known(_decode(_outcomes, payload), FORMAT_VERSION))
    _known(settlement.outcome, FORMAT_VERSION)
    return _known(settlement, RECORD_FORMAT)


def open_record_decode(payload: bytes) -> OpenRecord:
    """Errors: UnreadableOutcome."""
    record = _known(_decode(_open_records, payload), RECORD_FORMAT)
    _known(record.draft, FORMAT_VERSION)
    return record


def record_decode(payload: bytes) -> Settlement | OpenRecord:
    """Whichever of the two it is: their required fields differ. Errors: UnreadableOutcome."""
    try:
        return settlement_decode(payload)
    except UnreadableOutcome:
        return open_record_decode(payload)


def settlement_without_price(outcome: RequestOutcome) -> Settlement:
    """Nothing is charged; the usage is what the upstream reported."""
    return Settlement(outcome=outcome, usage_source="none" if outcome.usage is None else "reported")


def _encode(value: msgspec.Struct) -> bytes:
    try:
        return _encoder.encode(value)
    except Exception:  # noqa: BLE001  it is money: it must leave this process somehow
        return _encoder.encode(_scrubbed(value))


def _decode(decoder: "msgspec.msgpack.Decoder[T]", payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise UnreadableOutcome("no record of a request") from error


def _known(value: T, format_version: int) -> T:
    if value.format_version != format_version:
        raise UnreadableOutcome(f"format {value.format_version}")
    return value


def _scrubbed(value: Any) -> Any:
    """The same value as plain maps and lists, each text encodable."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, msgspec.Struct):
        return {name: _scrubbed(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_scrubbed(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_INTEGER_MAX, min(_INTEGER_MAX, value))
    return value if value is None or isinstance(value, (bool, float)) else type(value).__name__
