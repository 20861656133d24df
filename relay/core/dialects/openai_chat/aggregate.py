"""Builds the whole answer out of a stream that the client did not ask for.

An unfinished stream, a frame that cannot be read or a broken tool call gives no answer at all: a short
answer that looks whole is worse than a failed attempt. Must not know timers or size limits.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from relay.core.dialects.base import TOOL_CALL_INVALID, AggregationFailed
from relay.core.dialects.loose import Unreadable, encoded, loose_json, text, whole_number
from relay.core.dialects.upstream_errors import find_error
from relay.core.sse import Event
from relay.core.tool_calls import ToolCallAssembler

CUT_REASONS = frozenset({"length", "content_filter"})
"""Finish reasons that say themselves that the answer was cut: a tool call may then be incomplete."""

_MERGED_APART = frozenset({"choices", "object", "usage"})
_REPLACED = frozenset({"role", "id", "type", "index", "name"})
"""Members that are repeated and not continued from fragment to fragment."""


class _Pieces(list[str]):
    """A text that is still growing: joined once, at the end, so that the cost stays linear."""


@dataclass(slots=True)
class _ChoiceSoFar:
    message: dict[str, object] = field(default_factory=dict)
    calls: dict[int, "_CallSoFar"] = field(default_factory=dict)
    members: dict[str, object] = field(default_factory=dict)
    """What stands beside the message: logprobs, finish reason, vendor members."""


@dataclass(slots=True)
class _CallSoFar:
    members: dict[str, object] = field(default_factory=dict)
    function: dict[str, object] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


class OpenAIChatAggregator:
    """`Aggregator` for chat completions."""

    def __init__(self) -> None:
        self._members: dict[str, object] = {}
        self._choices: dict[int, _ChoiceSoFar] = {}
        self._usage: object = None
        self._calls = ToolCallAssembler()
        self._terminal_seen = False
        self._failure = ""
        self.size_bytes = 0
        """Characters of what has been kept so far; never more than the bytes that were read."""

    def add(self, event: Event) -> None:
        if self._terminal_seen or self._failure or not event.data.strip():
            return
        if event.data.strip() == "[DONE]":
            self._terminal_seen = True
            return
        try:
            chunk = loose_json(event.data)
        except Unreadable:
            self._failure = "upstream_error_event" if event.event == "error" else "not_json"
            return
        if event.event == "error" or find_error(chunk) is not None:
            self._failure = "upstream_error_event"
            return
        if not isinstance(chunk.get("choices"), list | None):
            self._failure = "not_json"
            return
        self._add_chunk(chunk)

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` with `incomplete`, `not_json`, `tool_call_invalid`, …"""
        if self._failure:
            raise AggregationFailed(self._failure)
        finished = all(choice.members.get("finish_reason") for choice in self._choices.values())
        if not self._choices or not finished:
            raise AggregationFailed("incomplete")
        answer: dict[str, object] = {**self._members, "object": "chat.completion"}
        answer["choices"] = [self._whole_choice(index) for index in sorted(self._choices)]
        if self._usage is not None:
            answer["usage"] = self._usage
        return encoded(_joined(answer))

    def _add_chunk(self, chunk: dict[str, object]) -> None:
        choices = chunk.get("choices")
        choices = choices if isinstance(choices, list) else []
        if choices or "usage" not in chunk:
            self._add_members(chunk, is_source=bool(choices))
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        for choice in choices:
            if isinstance(choice, dict):
                self._add_choice(choice)

    def _add_members(self, chunk: dict[str, object], *, is_source: bool) -> None:
        """id, created, model and fingerprint of the first chunk that has them; vendor members, the last."""
        for name, value in chunk.items():
            if name in _MERGED_APART or value in (None, ""):
                continue
            if name not in ("id", "created", "model"):
                self._keep(self._members, name, value)
            elif is_source:
                self._members.setdefault(name, value)

    def _add_choice(self, choice: dict[str, object]) -> None:
        index = whole_number(choice.get("index")) or 0
        so_far = self._choices.setdefault(index, _ChoiceSoFar())
        delta = choice.get("delta")
        for name, value in delta.items() if isinstance(delta, dict) else ():
            if name == "tool_calls":
                self._add_calls(index, so_far, value)
            else:
                self._continue(so_far.message, name, value)
        for name, value in choice.items():
            if name not in ("index", "delta", "finish_reason"):
                self._continue(so_far.members, name, value)
        if choice.get("finish_reason"):
            so_far.members["finish_reason"] = choice["finish_reason"]

    def _add_calls(self, choice: int, so_far: _ChoiceSoFar, fragments: object) -> None:
        for fragment in fragments if isinstance(fragments, list) else ():
            if not isinstance(fragment, dict):
                continue
            function = fragment.get("function")
            function = function if isinstance(function, dict) else {}
            arguments = function.get("arguments")
            if isinstance(arguments, dict | list):
                arguments = json.dumps(arguments)
            number = self._calls.add(
                choice,
                index=whole_number(fragment.get("index")),
                call_id=text(fragment.get("id")),
                name=text(function.get("name")) or _custom_name(fragment),
                arguments=text(arguments),
            )
            self._add_fragment(so_far.calls.setdefault(number, _CallSoFar()), fragment, function)
            if isinstance(arguments, str):
                so_far.calls[number].arguments.append(arguments)
                self.size_bytes += len(arguments)

    def _add_fragment(
        self, call: _CallSoFar, fragment: dict[str, object], function: dict[str, object]
    ) -> None:
        for name, value in fragment.items():
            if isinstance(value, dict) and name != "function":
                self._continue(call.members, name, value)
            elif name not in ("index", "function") and value:
                call.members.setdefault(name, value)
        for name, value in function.items():
            if name != "arguments" and value:
                call.function.setdefault(name, value)

    def _whole_choice(self, index: int) -> dict[str, object]:
        so_far = self._choices[index]
        reason = so_far.members["finish_reason"]
        message: dict[str, object] = {"role": "assistant", "content": None, **so_far.message}
        if so_far.calls:
            valid = self._calls.check(index)
            if not valid and reason not in CUT_REASONS:
                raise AggregationFailed(TOOL_CALL_INVALID)
            if valid and reason == "stop":
                reason = "tool_calls"
            message["tool_calls"] = [_whole_call(so_far.calls[number]) for number in sorted(so_far.calls)]
        return {"index": index, "message": message, **so_far.members, "finish_reason": reason}

    def _continue(self, members: dict[str, object], name: str, value: object) -> None:
        """Texts and lists grow, objects are merged, all else is replaced by what is not null."""
        old = members.get(name)
        if isinstance(value, str) and isinstance(old, str | _Pieces) and name not in _REPLACED:
            pieces = old if isinstance(old, _Pieces) else _Pieces([old])
            pieces.append(value)
            members[name] = pieces
            self.size_bytes += len(value)
        elif isinstance(old, list) and isinstance(value, list):
            old.extend(value)
            self.size_bytes += _weight(value)
        elif isinstance(old, dict) and isinstance(value, dict):
            for inner_name, inner in value.items():
                self._continue(old, inner_name, inner)
        elif value is not None or name not in members:
            self._keep(members, name, value)

    def _keep(self, members: dict[str, object], name: str, value: object) -> None:
        self.size_bytes += _weight(value) - _weight(members.get(name))
        members[name] = value


def _whole_call(call: _CallSoFar) -> dict[str, object]:
    if not call.function and not call.arguments:
        return {"type": "function", **call.members}
    function = {**call.function, "arguments": "".join(call.arguments)}
    return {"type": "function", **call.members, "function": function}


def _custom_name(fragment: Mapping[str, object]) -> str | None:
    """Custom tools (free text instead of arguments) have their name in a member of their own."""
    custom = fragment.get("custom")
    return text(custom.get("name")) if isinstance(custom, dict) else None


def _weight(value: object) -> int:
    """Characters and members held, roughly; nesting is bounded by the JSON decoder."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_weight, value)) + len(value)
    if isinstance(value, dict):
        return sum(len(name) + _weight(inner) for name, inner in value.items())
    return 8 if value is not None else 0


def _joined(value: object) -> object:
    """`value` with every growing text made whole."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, list):
        return list(map(_joined, value))
    if isinstance(value, dict):
        return {name: _joined(inner) for name, inner in value.items()}
    return value
