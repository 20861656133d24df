"""Reads a Gemini stream along: what it says, and what the client gets of each event.

`observe` runs for every event of every stream. It never raises into the relay. The protocol has no end mark:
the body's end is it, once every candidate has finished. A finish alone is none, for more may follow it: when
Google has run a tool (0xPlaygrounds/rig#2328), or where an imitation puts `STOP` on each chunk
(MartialBE/one-hub#402) or before the text (router-for-me/CLIProxyAPI#5651). Must not know timers or money.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, Ask, EventKind, Relayed, StreamFacts, UpstreamError
from relay.core.dialects.counts import USAGE_ABSURD
from relay.core.dialects.gemini.chunk import Candidate, Chunk, FunctionCall, Part, loose_chunk, strict_chunk
from relay.core.dialects.gemini.framing import JSON_ARRAY, ArrayWriter
from relay.core.dialects.gemini.repairs import as_plain_frame
from relay.core.dialects.gemini.usage import AbsurdUsage, Usage, UsageSoFar
from relay.core.dialects.loose import Unreadable, loose_json
from relay.core.dialects.members import value
from relay.core.dialects.upstream_errors import error_in_event, find_error
from relay.core.limits_asked import limits_asked
from relay.core.sse import Event
from relay.core.tool_calls import is_json

MAX_CANDIDATES = 1_024
"""Google allows 8. Candidates beyond it pass, but are not accounted for."""

_UNSET = msgspec.UNSET
_UNSPECIFIED = "_UNSPECIFIED"
"""How the names of values end that mean nothing (`FINISH_REASON_UNSPECIFIED`)."""


class GeminiInspector:
    """`StreamInspector` for generated content."""

    __slots__ = (
        "_array", "_candidates_due", "_finished", "_is_empty", "_seen", "_usage", "_usage_is_absurd", "facts",
    )  # fmt: skip

    def __init__(self, ask: Ask) -> None:
        self.facts = StreamFacts(ends_with_body=True)
        self._usage = UsageSoFar()
        self._usage_is_absurd = False
        self._candidates_due = min(limits_asked(ask.fields).choices, MAX_CANDIDATES)
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        """Without those that went on after their finish."""
        self._is_empty = True
        self._array = ArrayWriter() if ask.stream_form is JSON_ARRAY else None

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """See `StreamInspector`. Errors and what is INVALID are withheld: the relay tells its own."""
        try:
            chunk = strict_chunk(event.data)
        except (ValueError, RecursionError):
            try:
                chunk = loose_chunk(event.data)
            except Unreadable:
                return self._not_a_chunk(event, offset)
        if chunk.error is not _UNSET or event.event == "error" or not chunk.is_known:
            error = _error_in(event)
            if error is not None:
                return self._failed(error)
        if not chunk.is_known:
            self.facts.add_soft_error("unknown_event", offset)
            return Relayed(EventKind.INVALID, b"")
        kind = EventKind.CONTENT if self._read(chunk, offset) else EventKind.PREAMBLE
        return kind, self._frame(event)

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:  # noqa: ARG002  there are none
        """Each chunk carries the usage so far, and Google's chunks are few and large."""
        return 0, 0

    def closing(self) -> bytes:
        """The array's end, where one was asked for."""
        return b"" if self._array is None else self._array.end()

    def _read(self, chunk: Chunk, offset: int) -> bool:
        """True when the chunk carries something of the answer."""
        facts = self.facts
        facts.model = facts.model or chunk.model_version or ""
        carries = False
        for candidate in chunk.candidates or ():
            carries |= self._read_candidate(candidate, offset)
        if chunk.blocked and not chunk.blocked.endswith(_UNSPECIFIED):
            facts.finish_reasons[0] = chunk.blocked
            self._candidates_due = 0
            carries = True
        facts.every_choice_finished = (
            len(self._finished) >= self._candidates_due
            and self._seen <= self._finished
            and bool(facts.finish_reasons)
        )
        self._read_usage(chunk.usage_metadata, offset)
        return carries

    def _read_candidate(self, candidate: Candidate, offset: int) -> bool:
        index = candidate.index or 0
        if index not in self._seen and len(self._seen) < MAX_CANDIDATES:
            self._seen.add(index)
        carries = False
        for part in candidate.content.parts or () if candidate.content is not None else ():
            carries |= self._read_part(part, offset)
        if carries:
            self._finished.discard(index)
        if candidate.grounding_metadata is not _UNSET:  # it has searched
            self.facts.upstream_tool_started = True
        reason = candidate.finish_reason
        if reason and not reason.endswith(_UNSPECIFIED) and index in self._seen:
            self.facts.finish_reasons[index] = reason
            self._finished.add(index)
            carries = True
        return carries

    def _read_part(self, part: Part, offset: int) -> bool:
        """True when it carries something, be it only a signature."""
        self._is_empty = self._is_empty and not says_something(part)
        if part.text is not _UNSET:
            self.facts.received.add(part.text or "")
            return bool(part.text) or part.thought_signature is not _UNSET
        if part.function_call is not None:
            self._read_call(part.function_call, offset)
        elif part.inline_data is not None:
            self._usage.images += is_picture(part)
        elif runs_upstream(part):
            self.facts.upstream_tool_started = True
            self.facts.received.add(_source(part))
        return True

    def _read_call(self, call: FunctionCall, offset: int) -> None:
        self.facts.tool_call_count += bool(call.name)
        if call.args is not _UNSET:
            self.facts.received.add(bytes(call.args).decode("utf-8", "replace"))
        if call.partial_args is not _UNSET:
            self.facts.received.add(bytes(call.partial_args).decode("utf-8", "replace"))
        if not is_sound(call):
            self.facts.add_soft_error(TOOL_CALL_INVALID, offset)

    def _read_usage(self, usage: Usage | None, offset: int) -> None:
        """What is absurd is told once: the usage is on every chunk."""
        facts = self.facts
        if isinstance(usage, AbsurdUsage) and not self._usage_is_absurd:
            self._usage_is_absurd = True
            facts.add_soft_error(USAGE_ABSURD, offset)
        if usage is not None:
            self._usage.add(usage)
        facts.usage = self._usage.total(is_empty_answer=facts.every_choice_finished and self._is_empty)

    def _frame(self, event: Event) -> bytes:
        if self._array is not None:
            return self._array.element(event.data.encode("utf-8", "replace"))
        return as_plain_frame(event)

    def _failed(self, error: UpstreamError) -> Relayed:
        if self.facts.error is None:
            self.facts.error = error
        return Relayed(EventKind.ERROR, b"")

    def _not_a_chunk(self, event: Event, offset: int) -> Relayed:
        data = event.data.strip()
        if not data or data == "[DONE]":  # OpenAI's end mark, which some add to their imitations
            return Relayed(EventKind.COMMENT, b"")
        if event.event == "error":
            return self._failed(error_in_event(data))
        error = find_error(value(data.encode("utf-8", "replace")))  # in a list
        if error is not None:
            return self._failed(error)
        self.facts.add_soft_error("not_json", offset)
        return Relayed(EventKind.INVALID, b"")


def says_something(part: Part) -> bool:
    """A part that is no text does so by being there: a picture, a call, with arguments or without."""
    return part.text is _UNSET or bool(part.text)


def is_picture(part: Part) -> bool:
    """A finished one: those that a model sketches while it thinks are not charged as pictures."""
    blob = part.inline_data
    return blob is not None and blob.mime_type.startswith("image/") and not part.thought


def runs_upstream(part: Part) -> bool:
    """A tool that the upstream runs itself: what it did cannot be undone by asking again."""
    return not (
        part.executable_code is _UNSET
        and part.code_execution_result is _UNSET
        and part.tool_call is _UNSET
        and part.tool_response is _UNSET
    )


def is_sound(call: FunctionCall) -> bool:
    """A call has a name, and an object as arguments if any; those in pieces are not put together."""
    if call.partial_args is not _UNSET or call.will_continue is not None:
        return True
    if not call.name:
        return False
    args = b"null" if call.args is _UNSET else bytes(call.args)
    return args == b"null" or (args[:1] == b"{" and is_json(args.decode()))


def _source(part: Part) -> str:
    """The code that the model wrote, which is output."""
    return "" if part.executable_code is _UNSET else bytes(part.executable_code).decode("utf-8", "replace")


def _error_in(event: Event) -> UpstreamError | None:
    """An event named an error is one, whatever it holds; the vendors' own shapes come without a name."""
    if event.event == "error":
        return error_in_event(event.data)
    try:
        return find_error(loose_json(event.data))
    except Unreadable:
        return None
