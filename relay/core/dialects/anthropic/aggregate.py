"""Builds the whole message out of a stream that the client did not ask for.

An unfinished stream, a frame that cannot be read or a broken tool call gives no answer at all: a short answer
that looks whole is worse than a failed attempt. Must not know timers or size limits.
"""

from dataclasses import dataclass, field

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, AggregationFailed
from relay.core.dialects.loose import Unreadable, encoded, loose_json, text, whole_number
from relay.core.dialects.upstream_errors import find_error
from relay.core.sse import Event

CUT_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons that say themselves that the answer was cut: its last tool call may then be incomplete."""

_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "compaction_delta": "content",
}
_INPUT = "partial_json"
_BESIDE_THE_DELTA = frozenset({"type", "delta", "usage"})

_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(slots=True)
class _BlockSoFar:
    members: dict[str, object]
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """Texts that are still growing, by member: joined once, at the end, so that the cost stays linear."""


class AnthropicAggregator:
    """`Aggregator` for messages."""

    def __init__(self) -> None:
        self._message: dict[str, object] | None = None
        self._blocks: dict[int, _BlockSoFar] = {}
        self._usage: dict[str, object] = {}
        self._failure = ""

    def add(self, event: Event) -> None:
        if self._failure or not event.data.strip():
            return
        try:
            value = loose_json(event.data)
        except Unreadable:
            self._failure = "upstream_error_event" if event.event == "error" else "not_json"
            return
        name = text(value.get("type")) or event.event
        if name == "error" or event.event == "error" or (value.get("error") and find_error(value)):
            self._failure = "upstream_error_event"
            return
        self._take(name, value)

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` with `incomplete`, `not_json`, `tool_call_invalid`, …"""
        if self._failure:
            raise AggregationFailed(self._failure)
        if self._message is None or not self._message.get("stop_reason"):
            raise AggregationFailed("incomplete")
        is_cut = self._message["stop_reason"] in CUT_REASONS
        blocks = (_whole_block(self._blocks[index], is_cut=is_cut) for index in sorted(self._blocks))
        answer = {**self._message, "content": [block for block in blocks if block is not None]}
        if self._usage:
            answer["usage"] = self._usage
        return encoded(answer)

    def _take(self, name: str, value: dict[str, object]) -> None:
        index = whole_number(value.get("index")) or 0
        match name, value.get("message" if name == "message_start" else "delta"):
            case "message_start", dict(message):
                self._message = {**message, "stop_reason": None}
                self._add_usage(message.get("usage"))
            case "content_block_start", _:
                block = value.get("content_block")
                self._blocks[index] = _BlockSoFar(dict(block) if isinstance(block, dict) else {})
            case "content_block_delta", dict(delta):
                self._add_delta(index, delta)
            case "message_delta", dict(delta):
                self._end(delta, value)

    def _add_delta(self, index: int, delta: dict[str, object]) -> None:
        block = self._blocks.get(index)
        kind = text(delta.get("type")) or ""
        if block is None:
            self._failure = "unopened_block"
        elif kind in _GROWING:
            self._grow(block, _GROWING[kind], delta)
        elif kind == "signature_delta":
            block.members["signature"] = delta.get("signature")
        elif kind == "citations_delta":
            citations = block.members.get("citations")
            old = citations if isinstance(citations, list) else []
            block.members["citations"] = [*old, delta.get("citation")]
        else:  # what it would do to the block cannot be known
            self._failure = "unknown_delta"

    def _grow(self, block: _BlockSoFar, member: str, delta: dict[str, object]) -> None:
        piece = text(delta.get(member))
        if piece:
            block.pieces.setdefault(member, []).append(piece)
        if delta.get("encrypted_content") is not None:  # beside a summary of the context
            block.members["encrypted_content"] = delta["encrypted_content"]

    def _end(self, delta: dict[str, object], value: dict[str, object]) -> None:
        """Members of the message that are known at its end only."""
        self._add_usage(value.get("usage"))
        if self._message is not None:
            beside = {name: member for name, member in value.items() if name not in _BESIDE_THE_DELTA}
            for name, member in (*delta.items(), *beside.items()):
                if member is not None or name not in self._message:
                    self._message[name] = member

    def _add_usage(self, usage: object) -> None:
        """Totals: the last one that is not null wins, per member."""
        for name, value in usage.items() if isinstance(usage, dict) else ():
            if value is not None or name not in self._usage:
                self._usage[name] = value


def _whole_block(block: _BlockSoFar, *, is_cut: bool) -> dict[str, object] | None:
    """None for a tool call that the token limit cut: there is no half input, and a wrong one might be run."""
    whole = dict(block.members)
    for member, pieces in block.pieces.items():
        if member != _INPUT:
            whole[member] = (text(whole.get(member)) or "") + "".join(pieces)
    if _INPUT not in block.pieces:
        return whole
    try:
        whole["input"] = _input("".join(block.pieces[_INPUT]))
    except ValueError:
        if is_cut:
            return None
        raise AggregationFailed(TOOL_CALL_INVALID) from None
    return whole


def _input(arguments: str) -> object:
    """A tool's input, in the upstream's bytes where they can be kept. Raises ValueError: it is no object."""
    if not arguments.strip():
        return {}
    try:
        _read_object(arguments)
        return msgspec.Raw(arguments.encode())
    except (ValueError, RecursionError):
        return loose_json(arguments)
