"""A request to the Responses API: read for policy and billing, written for the upstream.

Refused is what makes or names something that tenants make at an upstream by their own requests: responses and
their items, conversations, containers. See `_refuse_stored_objects`. Must not know channels.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.json_body import count_objects, read_top_level
from relay.core.dialects.members import is_set, members, text
from relay.core.dialects.request_fields import (
    Fields,
    counted,
    flag,
    given,
    invalid,
    optional_model,
    required_model,
    stored_object,
)
from relay.core.errors import Refusal

_TRUE = msgspec.Raw(b"true")
_FALSE = msgspec.Raw(b"false")
_NULL = msgspec.Raw(b"null")

_NAMES_AN_OBJECT = ("previous_response_id", "conversation")
_REFERENCE = "item_reference"


class _Item(msgspec.Struct, gc=False):
    """Of the input, as far as it tells a reference; an item's own type may be anything here."""

    type: msgspec.Raw = _NULL
    role: msgspec.Raw = _NULL
    content: msgspec.Raw = _NULL
    id: msgspec.Raw = _NULL

    @property
    def is_reference(self) -> bool:
        """A reference need not say its type, nor need a message, which has a role and a content."""
        kind = text(self.type)
        is_message = bool(text(self.role)) and is_set(self.content)
        return kind == _REFERENCE or (not kind and not is_message and is_set(self.id))


class _Tool(msgspec.Struct, gc=False):
    container: msgspec.Raw = _NULL
    environment: msgspec.Raw = _NULL


_read_items = msgspec.json.Decoder(list[_Item]).decode
_read_tools = msgspec.json.Decoder(list[_Tool]).decode


def parse_request(body: bytes) -> Ask:
    """Raises `Refusal` (400) naming the field."""
    fields = read_top_level(body)
    model = required_model(fields)
    stream = flag(fields, "stream")
    items, tools = _counts(fields)
    return Ask(model=model, stream=stream, fields=fields, message_count=items, tool_count=tools)


def parse_action(body: bytes, *, is_count: bool) -> Ask:
    """Of what is done with a response's fields; the model may be left out. Raises `Refusal` (400).

    The body is written anew: of a member that is there twice, the upstream must read what was looked at here.
    is_count: nothing is made but a number, which is never streamed and not paid.
    """
    fields = read_top_level(body)
    model = optional_model(fields)
    items, tools = _counts(fields)
    return Ask(
        model=model,
        stream=not is_count and flag(fields, "stream"),
        is_charged=not is_count,
        has_streamed_form=not is_count,
        fields=fields,
        message_count=items,
        tool_count=tools,
        body=msgspec.json.encode(fields),
        is_raw=not is_count,
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


def _counts(fields: Fields) -> tuple[int, int]:
    """Items and tools. Raises `Refusal` (400), for stored objects too: to look for them takes sound lists."""
    items, tools = _item_count(given(fields, "input")), counted(fields, "tools")
    _refuse_stored_objects(fields)
    return items, tools


def _refuse_stored_objects(fields: Fields) -> None:
    """Raises `Refusal` (400). `input` and `tools` are lists of objects, if they are lists.

    Refused are `background`, `previous_response_id`, `conversation`, references to items in `input`, and
    containers that a tool names (`container` of the code interpreter as a text, `environment.container_id` of
    the shell). Ids of what only the operator can make (files, vector stores, prompts, skills) pass, and so do
    those that earlier items in `input` still have.
    """
    _refuse_background(fields)
    for name in _NAMES_AN_OBJECT:
        if given(fields, name) is not None:
            raise _no_earlier_answers(name)
    _refuse_references(given(fields, "input"))
    _refuse_containers(given(fields, "tools"))


def _refuse_background(fields: Fields) -> None:
    if flag(fields, "background"):
        raise Refusal(
            400,
            "'background' responses are not available: they are fetched by their id later, and this gateway "
            "does not keep track of the ids that upstreams hand out. Ask without 'background'.",
            code="unsupported_parameter",
            param="background",
        )


def _refuse_references(raw: msgspec.Raw | None) -> None:
    if raw is None or bytes(raw)[:1] != b"[":
        return
    for number, item in enumerate(_read_items(raw)):
        if item.is_reference:
            raise _no_earlier_answers(f"input[{number}]")


def _refuse_containers(raw: msgspec.Raw | None) -> None:
    """A container holds files and the state of programs, of whoever had it made."""
    for number, tool in enumerate(_read_tools(raw) if raw is not None else ()):
        if text(tool.container):
            raise _no_container(f"tools[{number}].container")
        if is_set(members(tool.environment).get("container_id")):
            raise _no_container(f"tools[{number}].environment.container_id")


def _no_earlier_answers(param: str) -> Refusal:
    return stored_object(param, "Send the earlier items in 'input' instead.")


def _no_container(param: str) -> Refusal:
    return stored_object(param, "Let the upstream make one: 'auto', or 'container_auto' for a shell.")


def _item_count(raw: msgspec.Raw | None) -> int:
    """A text counts as one item; 0 when there is no input (a stored prompt may bring its own)."""
    if raw is None:
        return 0
    if bytes(raw)[:1] == b'"':
        return 1
    if bytes(raw)[:1] != b"[":
        raise invalid("input", "a string or a list of objects")
    return count_objects(raw, "input")
