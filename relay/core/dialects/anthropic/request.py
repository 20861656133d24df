"""A Messages request: read for policy and billing, written for the upstream.

Refused is a container's id, the one thing that requests leave at the upstream for others to name. Must not
know channels: mapping and overrides are handed in.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.json_body import read_top_level
from relay.core.dialects.members import is_set, members, text
from relay.core.dialects.request_fields import (
    Fields,
    counted,
    flag,
    given,
    missing,
    required_model,
    stored_object,
)

_TRUE = msgspec.Raw(b"true")
_FALSE = msgspec.Raw(b"false")


def parse_request(body: bytes, *, has_streamed_form: bool = True) -> Ask:
    """Raises `Refusal` (400) naming the field.

    has_streamed_form: False for token counts, where `stream` means nothing.
    """
    fields = read_top_level(body)
    model = required_model(fields)
    if given(fields, "messages") is None:
        raise missing("messages")
    _refuse_container(fields)
    return Ask(
        model=model,
        stream=has_streamed_form and flag(fields, "stream"),
        has_streamed_form=has_streamed_form,
        is_charged=has_streamed_form,
        include_usage=True,
        fields=fields,
        message_count=counted(fields, "messages"),
        tool_count=counted(fields, "tools"),
    )


def build_request(ask: Ask, *, model: str, stream: bool, overrides: Mapping[str, object]) -> bytes:
    """The body for the upstream. Values that need no change keep the client's own bytes."""
    fields: dict[str, object] = dict(ask.fields)
    if model != ask.model:
        fields["model"] = model
    if stream != ask.stream:
        fields["stream"] = _TRUE if stream else _FALSE
    fields.update(overrides)
    return msgspec.json.encode(fields)


def _refuse_container(fields: Fields) -> None:
    """Raises `Refusal` (400) for the id of a container, as a text or as `container.id`; skills alone pass.

    A container holds files and the state of programs, of whoever had it made. Ids of what only the operator
    can make (files, skills) pass.
    """
    raw = fields.get("container")
    if text(raw):
        param = "container"
    elif is_set(members(raw).get("id")):
        param = "container.id"
    else:
        return
    raise stored_object(param, "Leave it out: the upstream makes a new one.")
