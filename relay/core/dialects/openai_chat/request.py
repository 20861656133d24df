"""A chat completion request: read for policy and billing, written for the upstream.

Must not know channels: mapping and overrides are handed in.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.json_body import count_objects, read_top_level
from relay.core.errors import Refusal

MAX_MODEL_CHARS = 256

_read_text = msgspec.json.Decoder(str).decode
_read_flag = msgspec.json.Decoder(bool | None).decode
_read_number = msgspec.json.Decoder(int | None).decode
_read_options = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode

_TRUE = msgspec.Raw(b"true")
_FALSE = msgspec.Raw(b"false")


def parse_request(body: bytes) -> Ask:
    """Raises `Refusal` (400) naming the field."""
    fields = read_top_level(body)
    stream = _flag(fields.get("stream"), "stream")
    options = _stream_options(fields)
    choices_asked(fields)
    return Ask(
        model=_model(fields),
        stream=stream,
        include_usage=stream and _flag(options.get("include_usage"), "stream_options.include_usage"),
        fields=fields,
        message_count=_message_count(fields),
        tool_count=_tool_count(fields),
    )


def build_request(
    ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
) -> bytes:
    """The body for the upstream. Values that need no change keep the client's own bytes."""
    fields: dict[str, object] = dict(ask.fields)
    if model != ask.model:
        fields["model"] = model
    if stream != ask.stream:
        fields["stream"] = _TRUE if stream else _FALSE
    if not stream:
        # OpenAI answers 400 to stream_options without stream.
        fields.pop("stream_options", None)
    elif request_usage and not ask.include_usage:
        fields["stream_options"] = {**_stream_options(ask.fields), "include_usage": _TRUE}
    fields.update(overrides)
    return msgspec.json.encode(fields)


def choices_asked(fields: Mapping[str, msgspec.Raw]) -> int:
    """`n`, 1 when absent. Raises `Refusal` (400)."""
    raw = fields.get("n")
    if raw is None:
        return 1
    try:
        number = _read_number(raw)
    except msgspec.MsgspecError:
        number = 0
    if number is None:
        return 1
    if number < 1:
        raise _invalid("n", "a positive integer")
    return number


def _invalid(param: str, what: str) -> Refusal:
    return Refusal(400, f"'{param}' must be {what}.", code="invalid_type", param=param)


def _missing(param: str) -> Refusal:
    return Refusal(400, f"'{param}' is required.", code="missing_required_parameter", param=param)


def _model(fields: Mapping[str, msgspec.Raw]) -> str:
    raw = fields.get("model")
    if raw is None:
        raise _missing("model")
    try:
        model = _read_text(raw)
    except msgspec.MsgspecError:
        raise _invalid("model", "a string") from None
    if not model:
        raise _missing("model")
    if len(model) > MAX_MODEL_CHARS:
        raise Refusal(
            400,
            f"'model' is longer than {MAX_MODEL_CHARS} characters.",
            code="invalid_value",
            param="model",
        )
    return model


def _flag(raw: msgspec.Raw | None, param: str) -> bool:
    if raw is None:
        return False
    try:
        return bool(_read_flag(raw))
    except msgspec.MsgspecError:
        raise _invalid(param, "true, false or null") from None


def _stream_options(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    raw = fields.get("stream_options")
    if raw is None:
        return {}
    try:
        return _read_options(raw) or {}
    except msgspec.MsgspecError:
        raise _invalid("stream_options", "an object") from None


def _message_count(fields: Mapping[str, msgspec.Raw]) -> int:
    raw = fields.get("messages")
    if raw is None:
        raise _missing("messages")
    return count_objects(raw, "messages")


def _tool_count(fields: Mapping[str, msgspec.Raw]) -> int:
    raw = fields.get("tools")
    return count_objects(raw, "tools") if raw is not None and bytes(raw) != b"null" else 0
