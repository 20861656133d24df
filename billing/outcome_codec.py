"""`RequestOutcome` ↔ bytes, as it travels through the admission store. Shape: MessagePack, one map.

Must not import: Django, models.
"""

from typing import Any

import msgspec

from relay.core.outcomes import FORMAT_VERSION, RequestOutcome

_INTEGER_MAX = 2**63 - 1

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RequestOutcome)


class UnreadableOutcome(Exception):
    """The bytes are no outcome, or one of a format this code does not know."""


def outcome_encode(outcome: RequestOutcome) -> bytes:
    """Never fails: what MessagePack cannot carry is replaced.

    A lone surrogate becomes `?`, an integer beyond 64 bits the nearest one within, a foreign object its
    class's name (which the reader then refuses, so that the outcome is kept as dead instead of lost).
    """
    try:
        return _encoder.encode(outcome)
    except Exception:  # noqa: BLE001  an outcome is money: it must leave this process somehow
        return _encoder.encode(_scrubbed(outcome))


def outcome_decode(payload: bytes) -> RequestOutcome:
    """Errors: UnreadableOutcome."""
    try:
        outcome = _decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise UnreadableOutcome("not an outcome") from error
    if outcome.format_version != FORMAT_VERSION:
        raise UnreadableOutcome(f"format {outcome.format_version}")
    return outcome


def _scrubbed(value: Any) -> Any:
    """The same value as plain maps and lists, each text encodable."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, msgspec.Struct):
        return {name: _scrubbed(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [_scrubbed(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_INTEGER_MAX, min(_INTEGER_MAX, value))
    return value if value is None or isinstance(value, (bool, float)) else type(value).__name__
