"""A chat completion request: read for policy and billing, written for the upstream.

Must not know channels: mapping and overrides are handed in.
"""

from collections.abc import Callable, Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.json_body import count_objects, read_top_level
from relay.core.dialects.request_fields import counted, flag, invalid, missing, required_model

_read_number = msgspec.json.Decoder(int | None).decode
_read_options = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode

_INCLUDE_USAGE = "stream_options.include_usage"
_TRUE = msgspec.Raw(b"true")
_FALSE = msgspec.Raw(b"false")


def message_count(fields: Mapping[str, msgspec.Raw]) -> int:
    """Raises `Refusal` (400)."""
    raw = fields.get("messages")
    if raw is None:
        raise missing("messages")
    return count_objects(raw, "messages")


def parse_request(body: bytes, count: Callable[[Mapping[str, msgspec.Raw]], int] = message_count) -> Ask:
    """Raises `Refusal` (400) naming the field. count: of what the model is asked."""
    fields = read_top_level(body)
    stream = flag(fields, "stream")
    options = _stream_options(fields)
    choices_asked(fields)
    return Ask(
        model=required_model(fields),
        stream=stream,
        include_usage=stream and _include_usage(options),
        fields=fields,
        message_count=count(fields),
        tool_count=counted(fields, "tools"),
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
        raise invalid("n", "a positive integer")
    return number


def _include_usage(options: Mapping[str, msgspec.Raw]) -> bool:
    return flag({f"stream_options.{name}": value for name, value in options.items()}, _INCLUDE_USAGE)


def _stream_options(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    raw = fields.get("stream_options")
    if raw is None:
        return {}
    try:
        return _read_options(raw) or {}
    except msgspec.MsgspecError:
        raise invalid("stream_options", "an object") from None
