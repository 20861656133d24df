"""Reads an OpenAI-shaped stream along: what it says, and which repairs each event needs.

The hot path: `observe` runs for every event of every stream. It never raises into the relay and keeps
no text but the arguments of tool calls that are not yet whole. Must not know timers, money or channels.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, Ask, EventKind, Relayed, StreamFacts, UpstreamError
from relay.core.dialects.blocks import comments_of, passed, without_id_and_retry
from relay.core.dialects.counts import USAGE_ABSURD
from relay.core.dialects.loose import Unreadable, loose_json
from relay.core.dialects.openai_chat.chunk import (
    Choice,
    Chunk,
    Delta,
    ToolCallFragment,
    answer_id,
    carries_more,
    loose_chunk,
    strict_chunk,
    strict_chunks,
)
from relay.core.dialects.openai_chat.repairs import Edits, edited
from relay.core.dialects.openai_chat.request import choices_asked
from relay.core.dialects.openai_chat.usage import AbsurdUsage, Usage, normalised
from relay.core.dialects.upstream_errors import error_in_event, find_error
from relay.core.sse import DONE, Event
from relay.core.tool_calls import ToolCallAssembler
from relay.core.usage import merged

MAX_CHOICES = 1_024
"""OpenAI allows 128. Choices beyond it pass, but are not accounted for."""

PLAIN_MISSES_ALLOWED = 4
"""Reads of a stream that began like plain text and could not be decoded so; then none is tried any more."""

_DONE_DATA = "[DONE]"
_BETWEEN = b"\n\ndata: "
_OBJECT_END = b"}\n\n"
_UNSET = msgspec.UNSET
_CONTENT = EventKind.CONTENT


class OpenAIChatInspector:
    """`StreamInspector` for chat completions; legacy completions, which have no delta, are read too."""

    __slots__ = (
        "_choices_due", "_choices_seen", "_include_usage", "_offset", "_plain_misses",
        "_tool_calls", "_usage_is_absurd", "facts",
    )  # fmt: skip

    def __init__(self, ask: Ask, choices: int | None = None) -> None:
        """choices: how many are due; None = as many as asked for."""
        self.facts = StreamFacts()
        self._include_usage = ask.include_usage
        self._choices_due = min(choices_asked(ask.fields) if choices is None else choices, MAX_CHOICES)
        self._choices_seen: set[int] = set()
        self._tool_calls = ToolCallAssembler()
        self._usage_is_absurd = False
        self._offset = 0
        self._plain_misses = 0

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """See `StreamInspector`. Errors and what is INVALID are withheld: the relay tells its own."""
        if event.event == "error" and event.has_data:
            return self._failed(error_in_event(event.data))
        try:
            chunk = strict_chunk(event.data)
        except (ValueError, RecursionError):
            try:
                chunk = loose_chunk(event.data)
            except Unreadable:
                return self._not_a_chunk(event, offset)
        choices = chunk.choices
        if not choices or chunk.error is not _UNSET:
            return self._read_uncommon(chunk, event, offset)
        if len(choices) == 1 and chunk.usage is None and (text := self._plain_text(choices[0])):
            self.facts.received.add(text)
            if event.id or event.retry is not None:
                return _CONTENT, without_id_and_retry(event.raw)
            return _CONTENT, event.raw
        return self._with_choices(chunk, choices, event, offset)

    def closing(self) -> bytes:
        """The missing `[DONE]`; tool calls of choices that never finished are checked here."""
        facts = self.facts
        if not facts.every_choice_finished and not self._tool_calls.check_all():
            facts.add_soft_error(TOOL_CALL_INVALID, self._offset)
        return DONE if facts.every_choice_finished and not facts.terminal_seen else b""

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:
        """See `StreamInspector`. One decode for all events of a read, and no object for any of them.

        The read is taken apart by its text alone, which is safe: whatever is not `data: {…}` and a blank
        line each time makes the list no JSON, or its length another than half the number of line ends.
        """
        end = data.rfind(_OBJECT_END) + len(_OBJECT_END)  # behind it: `[DONE]`, or half an event
        if data[:7] != b"data: {" or end < len(_OBJECT_END) or (in_full and end != len(data)):
            return 0, 0
        if self._plain_misses >= PLAIN_MISSES_ALLOWED or self.facts.terminal_seen:
            return 0, 0
        chunks = self._chunks_of(data[6 : end - 2], data.count(b"\n", 0, end))
        texts: list[str] = []
        for chunk in chunks:
            text = self._plain_chunk_text(chunk)
            if not text:
                break
            texts.append(text)
        plain, others = len(texts), len(chunks) - len(texts)
        if not plain or (in_full and others):
            return 0, 0
        self.facts.received.add(texts[0] if plain == 1 else "".join(texts))
        if others:
            end = len(data[:end].rsplit(b"\n\n", others + 1)[0]) + 2
        return plain, end

    def _chunks_of(self, data: bytes, line_ends: int) -> list[Chunk]:
        """Of the data of whole events; none if anything in it is not as `observe_plain` takes it to be."""
        try:
            if line_ends == 2:
                return [strict_chunk(data)]
            chunks = strict_chunks(b"[" + data.replace(_BETWEEN, b",") + b"]")
        except (ValueError, RecursionError):
            self._plain_misses += 1
            return []
        return chunks if 2 * len(chunks) == line_ends else []

    def _plain_chunk_text(self, chunk: Chunk) -> str:
        """Its text, if there is nothing else in it; else empty."""
        choices = chunk.choices
        if not choices or len(choices) != 1 or chunk.usage is not None or chunk.error is not _UNSET:
            return ""
        return self._plain_text(choices[0])

    def _plain_text(self, choice: Choice) -> str:
        """Of the common event, more text of a choice that is known already; empty for any other."""
        delta = choice.delta
        if (
            delta is None
            or not delta.content
            or delta.reasoning_content
            or delta.reasoning
            or delta.refusal
            or delta.function_call is not None
            or choice.finish_reason is not None
            or choice.usage is not None
            or delta.tool_calls
            or choice.index not in self._choices_seen
        ):
            return ""
        return delta.content

    def _with_choices(self, chunk: Chunk, choices: list[Choice], event: Event, offset: int) -> Relayed:
        edits = Edits()
        has_content = False
        if not self._choices_seen:
            self.facts.answer_id = answer_id(event.data)
        for position, choice in enumerate(choices):
            has_content |= self._read_choice(position, choice, edits, offset)
        if chunk.model and not self.facts.model:
            self.facts.model = chunk.model
        if chunk.x_groq is not None:
            self._read_usage(chunk.x_groq.usage, offset)
        if chunk.usage is not None:
            has_content |= self._read_usage(chunk.usage, offset)
            edits.drop_usage = not self._include_usage
        kind = _CONTENT if has_content or carries_more(event.data) else EventKind.PREAMBLE
        return Relayed(kind, self._frame(event, edits, offset))

    def _read_uncommon(self, chunk: Chunk, event: Event, offset: int) -> Relayed:
        """Usage, an error, Azure's prompt-filter results: model "" and its own id mean nothing there."""
        is_usage_chunk = chunk.choices == [] and normalised(chunk.usage) is not None and chunk.error is _UNSET
        error = None if is_usage_chunk else _error_in(event.data)
        if error is not None:
            return self._failed(error)
        if chunk.choices:
            return self._with_choices(chunk, chunk.choices, event, offset)
        edits = Edits(empty_choices=chunk.choices is None or chunk.choices is _UNSET)
        if chunk.usage is None:
            return Relayed(EventKind.PREAMBLE, self._frame(event, edits, offset))
        kind = _CONTENT if self._read_usage(chunk.usage, offset) else EventKind.PREAMBLE
        if chunk.model and not self.facts.model:
            self.facts.model = chunk.model
        return Relayed(kind, self._frame(event, edits, offset) if self._include_usage else b"")

    def _read_choice(self, position: int, choice: Choice, edits: Edits, offset: int) -> bool:
        """True when the choice carries something of the answer."""
        index = choice.index or 0
        if index not in self._choices_seen and len(self._choices_seen) < MAX_CHOICES:
            self._choices_seen.add(index)
            self.facts.every_choice_finished = False
        delta = choice.delta
        has_content = False
        if delta is not None:
            text = _text_of(delta)
            self.facts.received.add(text)
            has_content = bool(text or delta.tool_calls)
            if delta.tool_calls:
                self._read_calls(position, index, delta.tool_calls, edits)
        if choice.text:
            self.facts.received.add(choice.text)
            has_content = True
        self._read_usage(choice.usage, offset)
        if choice.finish_reason:
            self._finish(position, index, choice.finish_reason, edits, offset)
            has_content = True
        elif choice.finish_reason == "":
            edits.blank_finish.add(position)
        return has_content

    def _read_calls(
        self, position: int, choice: int, fragments: list[ToolCallFragment], edits: Edits
    ) -> None:
        numbers = []
        changed = False
        for fragment in fragments:
            function = fragment.function or fragment.custom
            arguments = function.arguments if function is not None else None
            number = self._tool_calls.add(
                choice,
                index=fragment.index,
                call_id=fragment.id,
                name=function.name if function is not None else None,
                arguments=arguments,
            )
            numbers.append(number)
            changed |= number != fragment.index
            if arguments:
                self.facts.received.add(arguments)
        self.facts.tool_call_count = self._tool_calls.count
        if changed:
            edits.call_numbers[position] = numbers

    def _finish(self, position: int, choice: int, reason: str, edits: Edits, offset: int) -> None:
        facts = self.facts
        valid = self._tool_calls.check(choice)
        if not valid and choice not in facts.finish_reasons:
            facts.add_soft_error(TOOL_CALL_INVALID, offset)
        if reason == "stop" and valid and self._tool_calls.has_calls(choice):
            reason = edits.finish[position] = "tool_calls"
        if choice in self._choices_seen:
            facts.finish_reasons[choice] = reason
        finished = facts.finish_reasons.keys()
        facts.every_choice_finished = len(finished) >= self._choices_due and self._choices_seen <= finished

    def _read_usage(self, usage: Usage | None, offset: int) -> bool:
        """True when it reports something. What is absurd is told once: some put usage on every chunk."""
        if isinstance(usage, AbsurdUsage) and not self._usage_is_absurd:
            self._usage_is_absurd = True
            self.facts.add_soft_error(USAGE_ABSURD, offset)
        reported = normalised(usage)
        if reported is None:
            return False
        self.facts.usage = merged(self.facts.usage, reported)
        return True

    def _frame(self, event: Event, edits: Edits, offset: int) -> bytes:
        if edits:
            try:
                return edited(event, edits)
            except (ValueError, LookupError, TypeError, RecursionError):
                self.facts.add_soft_error("repair_failed", offset)
        return passed(event)

    def _failed(self, error: UpstreamError) -> Relayed:
        if self.facts.error is None:
            self.facts.error = error
        return Relayed(EventKind.ERROR, b"")

    def _not_a_chunk(self, event: Event, offset: int) -> Relayed:
        data = event.data.strip()
        if not data:
            return Relayed(EventKind.COMMENT, comments_of(event.raw))
        if data == _DONE_DATA:
            out = b"" if self.facts.terminal_seen else self._frame(event, Edits(), offset)
            self.facts.terminal_seen = True
            return Relayed(EventKind.TERMINAL, out)
        error = _error_in(data)  # beside choices that are no list
        if error is not None:
            return self._failed(error)
        self.facts.add_soft_error("not_json", offset)
        return Relayed(EventKind.INVALID, b"")


def _text_of(delta: Delta) -> str:
    """Text, reasoning and refusal; reasoning that a vendor sends under both its names counts once."""
    call = delta.function_call.arguments if delta.function_call is not None else None
    parts = (delta.content, delta.reasoning_content or delta.reasoning, delta.refusal, call)
    return "".join([part for part in parts if part])


def _error_in(data: str) -> UpstreamError | None:
    try:
        return find_error(loose_json(data))
    except Unreadable:
        return None
