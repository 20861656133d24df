"""The closed list of what the relay changes in an OpenAI-shaped stream, because clients crash or mislead.

Everything else passes byte for byte. Where one event must change, only the members named are written
anew; all others keep the upstream's bytes.

- `id:` and `retry:` lines, and blocks without `data`, go: see `blocks`.
- `Edits.empty_choices`: `choices: null` or none at all crashes clients that index it (cline/cline#1786).
- `Edits.drop_usage`: a usage the client did not ask for, in a chunk that also carries choices.
- `Edits.blank_finish`: `finish_reason: ""` on every chunk ends the answer early (ollama/ollama#4357).
- `Edits.finish`: `stop` after tool calls; agents then never run them.
- `Edits.call_numbers`: parallel tool calls that share or lack an index are merged into one by clients.

Withheld as a whole, by the inspector: a usage chunk the client did not ask for, frames that are not
JSON, a second `[DONE]`, errors (the relay writes its own). Added: a missing `[DONE]`.
Must not decide when a repair is due; the inspector does.
"""

import msgspec

from relay.core.dialects.blocks import comment_lines
from relay.core.sse import Event, encode_event

_NULL = msgspec.Raw(b"null")
_TOOL_CALLS = "tool_calls"

_Members = dict[str, msgspec.Raw]
_read_members = msgspec.json.Decoder(_Members).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Edits(msgspec.Struct):
    """What must change in one event. Choices and calls are named by position, not by index.

    A msgspec struct: one is made for each event that is more than plain text.
    """

    empty_choices: bool = False
    drop_usage: bool = False
    blank_finish: set[int] = msgspec.field(default_factory=set)
    finish: dict[int, str] = msgspec.field(default_factory=dict)
    call_numbers: dict[int, list[int]] = msgspec.field(default_factory=dict)
    """Choice position → the number of each of its fragments."""

    def __bool__(self) -> bool:
        return bool(
            self.empty_choices or self.drop_usage or self.blank_finish or self.finish or self.call_numbers
        )


def edited(event: Event, edits: Edits) -> bytes:
    """The event's frame with `edits` applied. Raises ValueError when the data cannot be taken apart."""
    members: dict[str, object] = dict(_read_members(event.data))
    if edits.empty_choices:
        members["choices"] = []
    elif edits.blank_finish or edits.finish or edits.call_numbers:
        choices = members["choices"]
        if isinstance(choices, msgspec.Raw):
            members["choices"] = _edited_choices(choices, edits)
    if edits.drop_usage:
        members.pop("usage", None)
    name = "" if event.event == "message" else event.event
    return comment_lines(event.raw) + encode_event(msgspec.json.encode(members), name)


def _edited_choices(raw: msgspec.Raw, edits: Edits) -> list[object]:
    choices: list[object] = list(_read_items(raw))
    for position in edits.blank_finish | edits.finish.keys() | edits.call_numbers.keys():
        choice: dict[str, object] = dict(_read_members(_raw(choices[position])))
        if position in edits.blank_finish:
            choice["finish_reason"] = _NULL
        if position in edits.finish:
            choice["finish_reason"] = edits.finish[position]
        if position in edits.call_numbers:
            choice["delta"] = _renumbered(_raw(choice["delta"]), edits.call_numbers[position])
        choices[position] = choice
    return choices


def _renumbered(raw: msgspec.Raw, numbers: list[int]) -> dict[str, object]:
    delta: dict[str, object] = dict(_read_members(raw))
    calls = _read_items(_raw(delta[_TOOL_CALLS]))
    delta[_TOOL_CALLS] = [
        {"index": number, **{name: value for name, value in _read_members(call).items() if name != "index"}}
        for number, call in zip(numbers, calls, strict=True)
    ]
    return delta


def _raw(value: object) -> msgspec.Raw:
    if not isinstance(value, msgspec.Raw):
        raise TypeError(type(value).__name__)
    return value
