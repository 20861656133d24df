"""One event of a Responses stream, decoded as far as the relay looks at it.

A typed decode that skips everything else; a vendor that puts another type where OpenAI has text or a
number takes the loose path, which keeps what fits. Must not decide anything.
"""

import json
from collections.abc import Mapping

import msgspec

from relay.core.dialects.loose import Unreadable, loose_json, raw_of, text, whole_number

_NULL = msgspec.Raw(b"null")
_NOTHING = frozenset({b"null", b"false", b'""', b"{}", b"[]", b"0"})


class Item(msgspec.Struct, gc=False):
    """One item of a response's output."""

    type: str | None = None
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    """A custom tool's text, in the place of arguments."""
    result: msgspec.Raw = _NULL
    """A generated picture, base64."""
    content: msgspec.Raw = _NULL


class IncompleteDetails(msgspec.Struct, gc=False):
    reason: str | None = None


class Response(msgspec.Struct, gc=False):
    """A response object: the whole answer, or in an event what is known of it so far."""

    id: str | None = None
    status: str | None = None
    model: str | None = None
    output: list[Item] | None = None
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL
    incomplete_details: IncompleteDetails | None = None


class Payload(msgspec.Struct, gc=False):
    type: str | None = None
    output_index: int | None = None
    delta: str | None = None
    item: Item | None = None
    response: Response | None = None
    error: msgspec.Raw = _NULL
    object: str | None = None

    @property
    def has_error(self) -> bool:
        return bytes(self.error) not in _NOTHING


_strict_payload = msgspec.json.Decoder(Payload).decode
strict_payloads = msgspec.json.Decoder(list[Payload]).decode
"""The events of a whole read, as one JSON list. Raises ValueError or RecursionError."""

_strict_response = msgspec.json.Decoder(Response).decode
_strict_item = msgspec.json.Decoder(Item).decode


def read_payload(data: str) -> Payload:
    """Raises `Unreadable`, nothing else."""
    try:
        return _strict_payload(data)
    except (ValueError, RecursionError):
        pass
    value = loose_json(data)
    response, item = value.get("response"), value.get("item")
    return Payload(
        type=text(value.get("type")),
        output_index=whole_number(value.get("output_index")),
        delta=text(value.get("delta")),
        item=_loose_item(item) if isinstance(item, dict) else None,
        response=_loose_response(response) if isinstance(response, dict) else None,
        error=_raw(value.get("error")),
        object=text(value.get("object")),
    )


def read_response(body: bytes) -> Response:
    """A whole answer. Raises `Unreadable`, nothing else."""
    try:
        return _strict_response(body)
    except (ValueError, RecursionError):
        return _loose_response(loose_json(body.decode("utf-8", "replace")))


def read_item(raw: msgspec.Raw) -> Item:
    """An empty item for what is no object."""
    try:
        return _strict_item(raw)
    except (ValueError, RecursionError):
        pass
    try:
        return _loose_item(loose_json(bytes(raw).decode("utf-8", "replace")))
    except Unreadable:
        return Item()


def _loose_response(value: Mapping[str, object]) -> Response:
    details, output = value.get("incomplete_details"), value.get("output")
    return Response(
        id=text(value.get("id")),
        status=text(value.get("status")),
        model=text(value.get("model")),
        output=[_loose_item(item) if isinstance(item, dict) else Item() for item in output]
        if isinstance(output, list)
        else None,
        usage=_raw(value.get("usage")),
        error=_raw(value.get("error")),
        incomplete_details=IncompleteDetails(text(details.get("reason")))
        if isinstance(details, dict)
        else None,
    )


def _loose_item(value: Mapping[str, object]) -> Item:
    arguments = value.get("arguments")
    if isinstance(arguments, dict | list):  # an object instead of its text
        arguments = json.dumps(arguments)
    return Item(
        type=text(value.get("type")),
        id=text(value.get("id")),
        status=text(value.get("status")),
        call_id=text(value.get("call_id")),
        name=text(value.get("name")),
        arguments=text(arguments),
        input=text(value.get("input")),
        result=_raw(value.get("result")),
        content=_raw(value.get("content")),
    )


def _raw(value: object) -> msgspec.Raw:
    return raw_of(value) if value is not None else _NULL
