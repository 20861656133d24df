"""A request to the Responses API: read for policy and billing, written for the upstream.

Refused is what names an object that an upstream keeps: one upstream account serves many tenants, and
nobody remembers yet which of them an id belongs to. Must not know channels.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.json_body import count_objects, read_top_level
from relay.core.dialects.members import items, members, text
from relay.core.dialects.request_fields import Fields, counted, flag, given, invalid, required_model
from relay.core.errors import Refusal

_TRUE = msgspec.Raw(b"true")
_FALSE = msgspec.Raw(b"false")

_NAMES_AN_OBJECT = ("previous_response_id", "conversation")
_REFERENCE = b"item_reference"


def parse_request(body: bytes) -> Ask:
    """Raises `Refusal` (400) naming the field."""
    fields = read_top_level(body)
    model = required_model(fields)
    stream = flag(fields, "stream")
    refuse_stored_objects(fields)
    return Ask(
        model=model,
        stream=stream,
        fields=fields,
        message_count=_item_count(given(fields, "input")),
        tool_count=counted(fields, "tools"),
    )


def build_request(ask: Ask, *, model: str, stream: bool, overrides: Mapping[str, object]) -> bytes:
    """The body for the upstream. Values that need no change keep the client's own bytes."""
    fields: dict[str, object] = dict(ask.fields)
    if model != ask.model:
        fields["model"] = model
    if stream != ask.stream:
        fields["stream"] = _TRUE if stream else _FALSE
    if not stream:
        fields.pop("stream_options", None)
    fields.update(overrides)
    return msgspec.json.encode(fields)


def refuse_stored_objects(fields: Fields) -> None:
    """Raises `Refusal` (400) where a request makes or names an object that the upstream keeps by its id."""
    _refuse_background(fields)
    for name in _NAMES_AN_OBJECT:
        if given(fields, name) is not None:
            raise _no_stored_objects(name)
    _refuse_references(given(fields, "input"))


def _refuse_background(fields: Fields) -> None:
    if flag(fields, "background"):
        raise Refusal(
            400,
            "'background' responses are not available: they are fetched by their id later, and this gateway "
            "does not keep track of the ids that upstreams hand out. Ask without 'background'.",
            code="unsupported_parameter",
            param="background",
        )


def _no_stored_objects(param: str) -> Refusal:
    return Refusal(
        400,
        f"'{param}' is not available: it names an object stored at the upstream, and this gateway does not "
        "keep track of whose it is. Send the earlier items in 'input' instead.",
        code="unsupported_parameter",
        param=param,
    )


def _item_count(raw: msgspec.Raw | None) -> int:
    """A text counts as one item; 0 when there is no input (a stored prompt may bring its own)."""
    if raw is None:
        return 0
    if bytes(raw)[:1] == b'"':
        return 1
    if bytes(raw)[:1] != b"[":
        raise invalid("input", "a string or a list of objects")
    return count_objects(raw, "input")


def _refuse_references(raw: msgspec.Raw | None) -> None:
    """Most inputs have none, which their bytes tell."""
    if raw is None or (_REFERENCE not in bytes(raw) and b"\\u" not in bytes(raw)):
        return
    for number, item in enumerate(items(raw) or ()):
        if text(members(item).get("type")) == "item_reference":
            raise _no_stored_objects(f"input[{number}]")
