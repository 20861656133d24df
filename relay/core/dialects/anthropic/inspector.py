"""Reads a message stream along: what it says, and which repairs each event needs.

The hot path: `observe` runs for every event of every stream. It never raises into the relay and keeps no text
but the arguments of tool calls that are not yet whole. Must not know timers, money or channels.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from relay.core.dialects.anthropic.event import StreamEvent, loose_event, strict_event, strict_events
from relay.core.dialects.anthropic.repairs import named, with_stop_reason
from relay.core.dialects.anthropic.usage import AbsurdUsage, Usage, UsageSoFar
from relay.core.dialects.anthropic.whole import CLIENT_TOOL
from relay.core.dialects.base import TOOL_CALL_INVALID, EventKind, Relayed, StreamFacts, UpstreamError
from relay.core.dialects.blocks import comments_of
from relay.core.dialects.counts import USAGE_ABSURD
from relay.core.dialects.loose import Unreadable, loose_json
from relay.core.dialects.upstream_errors import error_in_event, find_error
from relay.core.sse import Event, encode_event
from relay.core.tool_calls import ToolCallAssembler

PLAIN_MISSES_ALLOWED = 4
"""Reads of a stream that began like plain text and could not be decoded so; then none is tried any more."""

MESSAGE_STOP = encode_event(b'{"type":"message_stop"}', "message_stop")

_UPSTREAM_TOOLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Tools that the upstream runs itself: what they did cannot be undone by asking again."""

_ANNOUNCED = frozenset({"text", "thinking"})
"""Blocks that start empty; any other says something by being there."""

_TEXT_DELTAS = frozenset({"", "text_delta", "thinking_delta", "input_json_delta"})
"""Deltas that say nothing when their text is empty."""

_BEFORE = b"event: content_block_delta\ndata: "
_BETWEEN = b"\n\n" + _BEFORE
_CONTENT, _PREAMBLE = EventKind.CONTENT, EventKind.PREAMBLE
_UNSET = msgspec.UNSET
_NO_TYPE = frozenset({"message", ""})


_Reader = Callable[["AnthropicInspector", StreamEvent, int], EventKind]


class AnthropicInspector:
    """`StreamInspector` for messages. There is one choice, number 0; blocks are told apart by index."""

    __slots__ = (
        "_offset", "_open_calls", "_plain_misses", "_tool_calls", "_usage", "_usage_is_absurd", "facts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.facts = StreamFacts()
        self._usage = UsageSoFar()
        self._usage_is_absurd = False
        self._tool_calls = ToolCallAssembler()
        self._open_calls: set[int] = set()
        """Blocks whose arguments are still to come."""
        self._offset = 0
        self._plain_misses = 0

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """See `StreamInspector`. Errors and what is INVALID are withheld: the relay tells its own."""
        try:
            read = strict_event(event.data)
        except (ValueError, RecursionError):
            try:
                read = loose_event(event.data)
            except Unreadable:
                return self._not_an_event(event, offset)
        self._offset = offset
        name = read.type or event.event
        reader = self._READERS.get(name)
        if event.event == "error" or read.error is not _UNSET or (reader is None and name != "ping"):
            error = _error_in(event, name)
            if error is not None:
                return self._failed(error)
        if reader is not None:
            kind = reader(self, read, offset)
        elif name in _NO_TYPE:  # the stream of another protocol
            self.facts.add_soft_error("untyped_event", offset)
            return Relayed(EventKind.INVALID, b"")
        else:
            kind = _PREAMBLE  # `ping`, and whatever the future brings
        return kind, self._frame(event, name, read)

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:  # noqa: ARG002  it always is
        """See `StreamInspector`. One decode for all events of a read: more text, and nothing else.

        The read is taken apart by its text alone, which is safe: what is not an `event:` line, `data: {…}`
        and a blank line each time makes the list no JSON, or its length not a third of the line ends.
        """
        if (
            self._plain_misses >= PLAIN_MISSES_ALLOWED
            or not data.startswith(_BEFORE)
            or data[-3:] != b"}\n\n"
            or b'"partial_json"' in data  # arguments: to decode them here would be in vain
            or self.facts.terminal_seen
        ):
            return 0, 0
        events, line_ends = data[len(_BEFORE) : -2], data.count(b"\n")
        try:
            if line_ends == 3:
                deltas = [strict_event(events)]
            else:
                deltas = strict_events(b"[" + events.replace(_BETWEEN, b",") + b"]")
        except (ValueError, RecursionError):
            self._plain_misses += 1
            return 0, 0
        texts = list(map(_plain_text, deltas))
        if 3 * len(deltas) != line_ends or not all(texts):
            return 0, 0
        self._receive("".join(texts))
        return len(deltas), len(data)

    def closing(self) -> bytes:
        """The missing `message_stop`; arguments that never ended are checked here."""
        facts = self.facts
        self._check_calls(self._offset)
        return MESSAGE_STOP if facts.every_choice_finished and not facts.terminal_seen else b""

    def _read_stop(self, _: StreamEvent, offset: int) -> EventKind:
        self._check_calls(offset)
        return EventKind.TERMINAL

    def _read_start(self, read: StreamEvent, offset: int) -> EventKind:
        message = read.message
        if message is not None:
            self.facts.model = self.facts.model or message.model or ""
            self._read_usage(message.usage, offset, has_output=False)
        return _PREAMBLE

    def _read_block(self, read: StreamEvent, _: int) -> EventKind:
        index, block = read.index or 0, read.content_block
        if block is None:
            return _PREAMBLE
        self._receive(block.text or block.thinking or "")
        if block.type == CLIENT_TOOL:
            self._tool_calls.add(index, index=0, call_id=block.id, name=block.name, arguments=None)
            if self._tool_calls.has_calls(index):
                self._open_calls.add(index)
            self.facts.tool_call_count = self._tool_calls.count
        elif block.type in _UPSTREAM_TOOLS:
            self.facts.upstream_tool_started = True
        if block.input is not _UNSET:
            self._receive_input(bytes(block.input))
        is_empty = block.type in _ANNOUNCED and not (block.text or block.thinking)
        return _PREAMBLE if is_empty else _CONTENT

    def _receive_input(self, given: bytes) -> None:
        """Some send a tool's whole input with the start of its block (Yeachan-Heo/gajae-code#1895)."""
        if len(given) > len(b"null"):
            self._receive(given.decode("utf-8", "replace"))

    def _read_block_end(self, read: StreamEvent, offset: int) -> EventKind:
        self._check_call(read.index or 0, offset)
        return _PREAMBLE

    def _read_delta(self, read: StreamEvent, _: int) -> EventKind:
        index, delta = read.index or 0, read.delta
        if delta is None:
            return _PREAMBLE
        text = delta.text or delta.thinking or delta.partial_json or delta.content
        if text:
            self._receive(text)
            if delta.partial_json and index in self._open_calls:
                self._tool_calls.add(index, index=0, call_id=None, name=None, arguments=text)
            return _CONTENT
        return _PREAMBLE if delta.type in _TEXT_DELTAS else _CONTENT

    def _read_end(self, read: StreamEvent, offset: int) -> EventKind:
        has_usage = self._read_usage(read.usage, offset)
        delta = read.delta
        if delta is None or not delta.stop_reason:
            return _CONTENT if has_usage else _PREAMBLE
        self._check_calls(offset)
        facts = self.facts
        facts.finish_reasons[0] = CLIENT_TOOL if self._hides_calls(delta.stop_reason) else delta.stop_reason
        facts.every_choice_finished = True
        return _CONTENT

    def _read_usage(self, usage: Usage | None, offset: int, *, has_output: bool = True) -> bool:
        """True when it reports something. What is absurd is told once."""
        if usage is None:
            return False
        if isinstance(usage, AbsurdUsage) and not self._usage_is_absurd:
            self._usage_is_absurd = True
            self.facts.add_soft_error(USAGE_ABSURD, offset)
        self.facts.usage = self._usage.add(usage, has_output=has_output)
        return self.facts.usage is not None

    def _receive(self, text: str) -> None:
        if text:
            self.facts.received.add(text)

    def _check_call(self, index: int, offset: int) -> None:
        if index in self._open_calls:
            self._open_calls.discard(index)
            if not self._tool_calls.check(index):
                self.facts.add_soft_error(TOOL_CALL_INVALID, offset)

    def _check_calls(self, offset: int) -> None:
        for index in tuple(self._open_calls):
            self._check_call(index, offset)

    def _hides_calls(self, stop_reason: str) -> bool:
        return stop_reason == "end_turn" and self._tool_calls.count > 0 and self._tool_calls.check_all()

    def _frame(self, event: Event, name: str, read: StreamEvent) -> bytes:
        if name == "message_stop":
            was_seen, self.facts.terminal_seen = self.facts.terminal_seen, True
            if was_seen:
                return b""
        elif name == "message_delta" and read.delta is not None:
            reason = read.delta.stop_reason
            if reason and reason != self.facts.finish_reasons[0]:
                return self._with_stop_reason(event)
        return named(event, name) if event.event == "message" else event.raw

    def _with_stop_reason(self, event: Event) -> bytes:
        try:
            return with_stop_reason(event, CLIENT_TOOL)
        except (ValueError, LookupError, TypeError, RecursionError):
            self.facts.add_soft_error("repair_failed", self._offset)
            return event.raw

    def _failed(self, error: UpstreamError) -> Relayed:
        if self.facts.error is None:
            self.facts.error = error
        return Relayed(EventKind.ERROR, b"")

    def _not_an_event(self, event: Event, offset: int) -> Relayed:
        data = event.data.strip()
        if not data:
            return Relayed(EventKind.COMMENT, comments_of(event.raw))
        if event.event == "error":
            return self._failed(error_in_event(data))
        if data == "[DONE]":  # OpenAI's end mark, which some add to their imitations of this protocol
            return Relayed(EventKind.COMMENT, b"")
        self.facts.add_soft_error("not_json", offset)
        return Relayed(EventKind.INVALID, b"")

    _READERS: ClassVar[Mapping[str, _Reader]] = {
        "content_block_delta": _read_delta,
        "content_block_start": _read_block,
        "content_block_stop": _read_block_end,
        "message_start": _read_start,
        "message_delta": _read_end,
        "message_stop": _read_stop,
    }


def _plain_text(read: StreamEvent) -> str:
    """The text of the common event; "" for any other."""
    delta = read.delta
    if read.type != "content_block_delta" or delta is None or read.error is not _UNSET or delta.partial_json:
        return ""
    return delta.text or delta.thinking or ""


def _error_in(event: Event, name: str) -> UpstreamError | None:
    """An event named an error is one, whatever it holds; vendors' own shapes come without a name."""
    if event.event == "error" or name == "error":
        return error_in_event(event.data)
    try:
        value = loose_json(event.data)
    except Unreadable:  # a number of thousands of digits, say
        return None
    return find_error(value) if value.get("error") or event.event == "message" else None
