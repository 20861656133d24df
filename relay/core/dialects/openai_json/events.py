"""The streams of images, speech and transcriptions: events with a `type`, the last of which has the usage.

Events pass byte for byte, but for what SDKs stumble over: see `openai_chat.repairs`. Must not keep pictures,
sound or text.
"""

from collections.abc import Callable

import msgspec

from relay.core.dialects.base import EventKind, StreamFacts, UpstreamError
from relay.core.dialects.blocks import comments_of, passed
from relay.core.dialects.counts import USAGE_ABSURD, Reported
from relay.core.dialects.loose import Unreadable, loose_json, raw_of, text
from relay.core.dialects.upstream_errors import error_in_event
from relay.core.sse import Event
from relay.core.usage import TokenUsage, merged

ReadUsage = Callable[[msgspec.Raw], Reported]

_NULL = msgspec.Raw(b"null")
_NOTHING = frozenset({b"null", b"false", b'""', b"{}", b"[]", b"0"})


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    object: str | None = None
    delta: str | None = None
    """Text of a transcription. (Speech has its sound elsewhere.)"""
    usage: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


_read_event = msgspec.json.Decoder(_Event).decode


class JsonEventsInspector:
    """`StreamInspector`. ends: types of the events that end a part of the answer; parts: how many are due.

    usage: reads the member of that name.
    """

    __slots__ = ("_ends", "_parts", "_usage", "facts", "finished")

    def __init__(self, ends: frozenset[str], parts: int, usage: ReadUsage) -> None:
        self.facts = StreamFacts()
        self.finished = 0
        """Parts of the answer that are there."""
        self._ends = ends
        self._parts = parts
        self._usage = usage

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """See `StreamInspector`."""
        facts = self.facts
        if facts.terminal_seen:
            return EventKind.COMMENT, b""
        try:
            read = _read(event.data)
        except Unreadable:
            return self._not_an_event(event, offset)
        kind = read.type or event.event
        if kind == "error" or read.object == "error" or bytes(read.error) not in _NOTHING:
            return self._failed(error_in_event(event.data))
        self._note_usage(read.usage, offset)
        if read.delta:
            facts.received.add(read.delta)
        if kind in self._ends:
            self._end_part()
        return EventKind.CONTENT, passed(event)

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:  # noqa: ARG002 - the protocol's
        return 0, 0

    def closing(self) -> bytes:
        return b""

    def _end_part(self) -> None:
        self.finished += 1
        if self.finished >= self._parts:
            self.facts.every_choice_finished = self.facts.terminal_seen = True

    def _note_usage(self, raw: msgspec.Raw, offset: int) -> None:
        if bytes(raw) == b"null":
            return
        reported = self._usage(raw)
        if USAGE_ABSURD in reported.soft_errors:
            self.facts.add_soft_error(USAGE_ABSURD, offset)
        if reported.tokens is not None:
            self.facts.usage = merged(self.facts.usage, reported.tokens)

    def _failed(self, error: UpstreamError) -> tuple[EventKind, bytes]:
        if self.facts.error is None:
            self.facts.error = error
        return EventKind.ERROR, b""

    def _not_an_event(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        data = event.data.strip()
        if not data:
            return EventKind.COMMENT, comments_of(event.raw)
        if data == "[DONE]":
            self.facts.terminal_seen = True
            return EventKind.TERMINAL, passed(event)
        if event.event == "error":
            return self._failed(error_in_event(data))
        self.facts.add_soft_error("not_json", offset)
        return EventKind.INVALID, b""


class PicturesInspector(JsonEventsInspector):
    """Counts each finished picture as soon as it is there, so that it is charged if the stream breaks."""

    __slots__ = ()

    def _end_part(self) -> None:
        super()._end_part()
        self.facts.usage = merged(self.facts.usage, TokenUsage(images=self.finished))


def _read(data: str) -> _Event:
    """Raises `Unreadable` for what is not a JSON object."""
    try:
        return _read_event(data)
    except (ValueError, RecursionError):
        pass
    members = loose_json(data)
    return _Event(
        type=text(members.get("type")),
        object=text(members.get("object")),
        delta=text(members.get("delta")),
        usage=raw_of(members.get("usage")),
        error=msgspec.Raw(b"true") if members.get("error") else _NULL,
    )
