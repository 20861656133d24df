"""Reads a stream of the Responses API along: what it says, and what of it the client gets.

Events pass byte for byte: the SDKs go by the `type` within the data, so that an `event:` line may be
missing. What is left out is what the official Python SDK stumbles over in any stream: `id:` and `retry:`
lines, blocks without data, frames that are not JSON, and whatever follows the last event (`[DONE]`).
`response.completed` and `response.incomplete` end a stream; both carry the answer and its usage.
`response.failed` and `error` are withheld: the relay writes its own. Must not know timers or channels.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, EventKind, StreamFacts, UpstreamError
from relay.core.dialects.blocks import comments_of, passed
from relay.core.dialects.loose import Unreadable
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_responses.event import Payload, Response, read_payload, strict_payloads
from relay.core.dialects.openai_responses.items import ANNOUNCED_ONLY, OutputItems, is_run_upstream, text_of
from relay.core.dialects.openai_responses.whole import failure_of, finish_reason
from relay.core.dialects.upstream_errors import error_in_event
from relay.core.sse import Event
from relay.core.usage import TokenUsage, merged

TEXT_DELTAS = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
        "response.code_interpreter_call_code.delta",
        "response.audio.transcript.delta",
    }
)
"""Events whose `delta` is text that the model wrote."""

PLAIN_MISSES_ALLOWED = 4
"""Reads of a stream that began like plain text and could not be decoded so; then none is tried any more."""

_PLAIN = "response.output_text.delta"
_BEFORE = b"event: response.output_text.delta\ndata: "
_BETWEEN = b"\n\n" + _BEFORE

_ARGUMENT_DELTAS = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_ANNOUNCEMENTS = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.content_part.added",
        "response.reasoning_summary_part.added",
        "keepalive",
        "ping",
    }
)
_TERMINALS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "response.cancelled"})

_CONTENT, _PREAMBLE, _COMMENT = EventKind.CONTENT, EventKind.PREAMBLE, EventKind.COMMENT


class ResponsesInspector:
    """`StreamInspector` for the Responses API."""

    __slots__ = ("_items", "_plain_misses", "facts")

    def __init__(self) -> None:
        self.facts = StreamFacts()
        self._items = OutputItems()
        self._plain_misses = 0

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """See `StreamInspector`."""
        if self.facts.terminal_seen:
            return _COMMENT, b""
        try:
            payload = read_payload(event.data)
        except Unreadable:
            return self._not_a_payload(event, offset)
        kind = payload.type or (event.event if event.event != "message" else "")
        if payload.has_error or kind == "error" or payload.object == "error":
            return self._failed(error_in_event(event.data))
        if not kind:  # `{}` as a keepalive, or another protocol's event: no SDK can read it
            self.facts.add_soft_error("untyped_event", offset)
            return _COMMENT, b""
        if kind in _FAILURES:
            return self._failed_response(payload, offset)
        return self._read(kind, payload, offset), passed(event)

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:  # noqa: ARG002  it always is
        """See `StreamInspector`. One decode for all events of a read: more text of a message, nothing else.

        The read is taken apart by its text alone, which is safe: what is not this `event:` line, `data: {…}`
        and a blank line each time makes the list no JSON, or its length not a third of the line ends.
        """
        if (
            self._plain_misses >= PLAIN_MISSES_ALLOWED
            or not data.startswith(_BEFORE)
            or data[-3:] != b"}\n\n"
            or b"\r" in data
            or self.facts.terminal_seen
        ):
            return 0, 0
        try:
            payloads = strict_payloads(b"[" + data[len(_BEFORE) : -2].replace(_BETWEEN, b",") + b"]")
        except (ValueError, RecursionError):
            self._plain_misses += 1
            return 0, 0
        if 3 * len(payloads) != data.count(b"\n") or not all(map(_is_plain, payloads)):
            return 0, 0
        for payload in payloads:
            self._note_text(payload.delta or "")
        return len(payloads), len(data)

    def closing(self) -> bytes:
        """Nothing: without its last event, which has the whole answer in it, a stream is unfinished."""
        return b""

    def _read(self, kind: str, payload: Payload, offset: int) -> EventKind:
        if kind in TEXT_DELTAS:
            return self._read_delta(kind, payload)
        if kind in _TERMINALS:
            self._end(payload.response or Response(), kind, offset)
            return _CONTENT
        if kind == "response.output_item.added":
            return self._read_opening(payload)
        if kind == "response.output_item.done":
            self._read_item(payload, offset)
            return _CONTENT
        if payload.response is not None:
            self._note_names(payload.response)
        return _PREAMBLE if kind in _ANNOUNCEMENTS else _CONTENT

    def _read_delta(self, kind: str, payload: Payload) -> EventKind:
        delta = payload.delta
        if not delta:
            return _PREAMBLE
        self._note_text(delta)
        if kind in _ARGUMENT_DELTAS:
            self._items.argued(payload.output_index or 0, delta)
        return _CONTENT

    def _read_opening(self, payload: Payload) -> EventKind:
        item = payload.item
        if item is None:
            return _PREAMBLE
        self._items.opened(payload.output_index or 0, item)
        self.facts.tool_call_count = self._items.call_count
        self.facts.upstream_tool_started |= is_run_upstream(item)
        return _PREAMBLE if item.type in ANNOUNCED_ONLY else _CONTENT

    def _read_item(self, payload: Payload, offset: int) -> None:
        item = payload.item
        if item is None:
            return
        if not self._items.done(payload.output_index or 0, item):
            self.facts.add_soft_error(TOOL_CALL_INVALID, offset)
        self.facts.tool_call_count = self._items.call_count
        self._note_pictures()

    def _end(self, response: Response, kind: str, offset: int) -> None:
        facts = self.facts
        self._note_names(response)
        output = response.output or []
        valid = [self._items.done(index, item) for index, item in enumerate(output)]
        was_cut = kind == "response.incomplete"
        if not all(valid) or not (self._items.all_done() or was_cut):
            facts.add_soft_error(TOOL_CALL_INVALID, offset)
        if not facts.received.size:
            for item in output:
                self._note_text(text_of(item))
        facts.tool_call_count = self._items.call_count
        self._note_usage(response, offset)
        self._note_pictures()
        facts.finish_reasons[0] = finish_reason(response, kind.removeprefix("response."))
        facts.every_choice_finished = facts.terminal_seen = True

    def _note_text(self, text: str) -> None:
        if text:
            self.facts.received.add(text)

    def _note_names(self, response: Response) -> None:
        if response.model and not self.facts.model:
            self.facts.model = response.model
        if response.id and not self.facts.answer_id:
            self.facts.answer_id = response.id

    def _note_usage(self, response: Response, offset: int) -> None:
        reported = usage_from_raw(response.usage)
        for error_class in reported.soft_errors:
            self.facts.add_soft_error(error_class, offset)
        if reported.tokens is not None:
            self.facts.usage = merged(self.facts.usage, reported.tokens)

    def _note_pictures(self) -> None:
        if self._items.picture_count:
            known = self.facts.usage or TokenUsage()
            self.facts.usage = msgspec.structs.replace(known, images=self._items.picture_count)

    def _failed_response(self, payload: Payload, offset: int) -> tuple[EventKind, bytes]:
        response = payload.response or Response()
        self._note_names(response)
        self._note_usage(response, offset)
        self._note_pictures()
        return self._failed(failure_of(response))

    def _failed(self, error: UpstreamError) -> tuple[EventKind, bytes]:
        if self.facts.error is None:
            self.facts.error = error
        return EventKind.ERROR, b""

    def _not_a_payload(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        data = event.data.strip()
        if not data:
            return _COMMENT, comments_of(event.raw)
        if data == "[DONE]":  # not this protocol's end: alone it proves nothing
            return _COMMENT, b""
        if event.event == "error":
            return self._failed(error_in_event(data))
        self.facts.add_soft_error("not_json", offset)
        return EventKind.INVALID, b""


def _is_plain(payload: Payload) -> bool:
    return (
        payload.type == _PLAIN and bool(payload.delta) and not payload.has_error and payload.object != "error"
    )
