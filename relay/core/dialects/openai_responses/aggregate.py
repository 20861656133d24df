"""Builds the whole response out of a stream that the client did not ask for.

The last event of a stream has it all; a vendor that leaves its `output` empty has sent the items one by
one. A stream without its last event, or with a broken tool call, gives no answer at all.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, AggregationFailed
from relay.core.dialects.loose import whole_number
from relay.core.dialects.members import Members, answer_members, items, members, text, value
from relay.core.dialects.openai_responses.event import read_item
from relay.core.dialects.openai_responses.items import CLIENT_TOOL_CALLS, is_whole_call
from relay.core.sse import Event


class _Typed(msgspec.Struct, gc=False):
    type: str | None = None
    output_index: int | None = None
    item: msgspec.Raw = msgspec.Raw(b"null")
    response: msgspec.Raw = msgspec.Raw(b"null")


_read_typed = msgspec.json.Decoder(_Typed).decode

_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}


class ResponsesAggregator:
    """`Aggregator` for the Responses API."""

    def __init__(self) -> None:
        self._items: dict[int, msgspec.Raw] = {}
        self._response: Members | None = None
        self._status = ""

    def add(self, event: Event) -> None:
        typed = _typed(event)
        kind = typed.type or event.event
        if kind == "response.output_item.done":
            index = typed.output_index if typed.output_index is not None else len(self._items)
            self._items[index] = typed.item
        elif kind in _ENDS:
            self._response = members(typed.response)
            self._status = _ENDS[kind]

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` with `incomplete` or `tool_call_invalid`."""
        if not self._response:
            raise AggregationFailed("incomplete")
        answer: dict[str, object] = dict(self._response)
        output = items(self._response.get("output"))
        if not output:
            output = answer["output"] = [self._items[index] for index in sorted(self._items)]
        if not text(self._response.get("status")):
            answer["status"] = self._status
        if self._status == "completed" and not all(map(_is_usable, output)):
            raise AggregationFailed(TOOL_CALL_INVALID)
        return msgspec.json.encode(answer)


def _typed(event: Event) -> _Typed:
    """Nothing for an event that cannot be read: the inspector has judged it."""
    data = event.data.encode("utf-8", "replace")
    try:
        return _read_typed(data)
    except (ValueError, RecursionError):
        pass
    try:
        loose = answer_members(data)
    except ValueError:
        return _Typed()
    null = msgspec.Raw(b"null")
    return _Typed(
        type=text(loose.get("type")),
        output_index=whole_number(value(loose.get("output_index"))),
        item=loose.get("item", null),
        response=loose.get("response", null),
    )


def _is_usable(raw: msgspec.Raw) -> bool:
    item = read_item(raw)
    return item.type not in CLIENT_TOOL_CALLS or is_whole_call(item)
