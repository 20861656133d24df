"""What OpenAI's request bodies have in common: model, flags, counted lists. Each fault names its field.

Must not import a dialect.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.json_body import count_objects
from relay.core.errors import Refusal

MAX_MODEL_CHARS = 256

Fields = Mapping[str, msgspec.Raw]

_read_text = msgspec.json.Decoder(str).decode
_read_flag = msgspec.json.Decoder(bool | None).decode


def invalid(param: str, what: str) -> Refusal:
    return Refusal(400, f"'{param}' must be {what}.", code="invalid_type", param=param)


def missing(param: str) -> Refusal:
    return Refusal(400, f"'{param}' is required.", code="missing_required_parameter", param=param)


def stored_object(param: str, instead: str) -> Refusal:
    """For what names an object that an upstream keeps: one account of the operator's serves many tenants, and
    nobody remembers yet which of them an id belongs to. instead: a sentence.
    """
    return Refusal(
        400,
        f"'{param}' is not available: it names an object stored at the upstream, and this gateway does not "
        f"keep track of whose it is. {instead}",
        code="unsupported_parameter",
        param=param,
    )


def given(fields: Fields, name: str) -> msgspec.Raw | None:
    """The member's bytes; None when it is absent or null."""
    raw = fields.get(name)
    return None if raw is None or bytes(raw) == b"null" else raw


def required_model(fields: Fields) -> str:
    """Raises `Refusal` (400), also when there is none."""
    model = optional_model(fields)
    if not model:
        raise missing("model")
    return model


def optional_model(fields: Fields) -> str:
    """Empty when absent or null: some endpoints have a default of their own. Raises `Refusal` (400)."""
    raw = given(fields, "model")
    if raw is None:
        return ""
    try:
        return checked_model(_read_text(raw))
    except msgspec.MsgspecError:
        raise invalid("model", "a string") from None


def checked_model(model: str) -> str:
    """Raises `Refusal` (400) for a name longer than any."""
    if len(model) > MAX_MODEL_CHARS:
        message = f"'model' is longer than {MAX_MODEL_CHARS} characters."
        raise Refusal(400, message, code="invalid_value", param="model")
    return model


def flag(fields: Fields, name: str) -> bool:
    """False when absent or null. Raises `Refusal` (400)."""
    raw = fields.get(name)
    if raw is None:
        return False
    try:
        return bool(_read_flag(raw))
    except msgspec.MsgspecError:
        raise invalid(name, "true, false or null") from None


def counted(fields: Fields, name: str) -> int:
    """Entries of a list of objects, 0 when absent or null. Raises `Refusal` (400)."""
    raw = given(fields, name)
    return count_objects(raw, name) if raw is not None else 0
