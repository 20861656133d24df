"""One upstream event stream, framed and judged: the part that relaying and aggregating share."""

import contextlib

from relay.core.dialects.base import Dialect, EventKind, StreamInspector
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.sse import Event, EventStreamParser, EventTooLarge
from relay.core.stream_state import Phase, Signal
from relay.upstream.attempt import Attempt
from relay.upstream.readings.common import EVENT_STREAM, error_as_data, is_json, read_body

_BLANK_LINE = b"\n\n"
_CONTENT, _PREAMBLE, _ERROR = EventKind.CONTENT, EventKind.PREAMBLE, EventKind.ERROR


class EventReader:
    """Frames what the attempt reads, asks the inspector, and keeps the attempt's state true."""

    __slots__ = (
        "_observe", "_parser", "attempt", "facts", "inspector",
    )  # fmt: skip

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        dialect: Dialect = attempt.request.dialect
        self.inspector: StreamInspector = dialect.stream_inspector(attempt.request.ask)
        self.facts = attempt.facts = self.inspector.facts
        self._parser = EventStreamParser(max_event_bytes=attempt.max_event_bytes, keep_comments=True)
        self._observe = self.inspector.observe

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes, not judged yet."""
        try:
            return self._parser.feed(data)
        except EventTooLarge as error:
            raise AttemptFailed(EndReason.RESPONSE_TOO_LARGE, error_class="event") from error

    def read(self, data: bytes, ready: list[bytes]) -> None:
        """Judges a whole read and appends to `ready` what the client gets of it.

        The text in it passes as it came, without parsing: three fifths of what event by event costs.
        Raises AttemptFailed at an error event; what came before it is in `ready`.
        """
        if not self._parser.is_between_events and (first := data.find(_BLANK_LINE)) >= 0:
            end = first + len(_BLANK_LINE)
            self.judge(self.feed(data[:end]), ready)
            data = data[end:]
        passed = self._pass_plain(data)
        if passed:
            ready.append(data[:passed])
        if passed < len(data):
            self.judge(self.feed(data[passed:]), ready)

    def _pass_plain(self, data: bytes) -> int:
        """How many bytes at the start of `data` go to the client as they came; they are accounted for."""
        if not self._parser.is_between_events or len(data) > self.attempt.max_event_bytes:
            return 0
        count, size = self.inspector.observe_plain(data)
        if count:
            self.note(count)
        return size

    def plain_events(self, data: bytes) -> int:
        """The number of events in a read that passes as it came, not noted yet; 0 for any other read."""
        if not self._parser.is_between_events or len(data) > self.attempt.max_event_bytes:
            return 0
        return self.inspector.observe_plain(data, in_full=True)[0]

    def close(self) -> list[Event]:
        """What the end of the body completes."""
        events = self._parser.close()
        if self._parser.truncated:
            self.facts.add_soft_error("truncated_event", self.attempt.bytes_in)
        return events

    def judge(self, events: list[Event], ready: list[bytes]) -> None:
        """Appends to `ready` what the client gets. The hot path: one call a read, one loop, no generator.

        Raises AttemptFailed at an error event; what came before it is in `ready`.
        """
        attempt, observe = self.attempt, self._observe
        offset = attempt.bytes_in
        valid = 0
        try:
            for event in events:
                kind, out = observe(event, offset)
                if kind is _CONTENT or kind is _PREAMBLE:
                    valid += 1
                elif kind is _ERROR:
                    raise error_as_data(self.facts.error)
                if out:
                    ready.append(out)
        finally:
            self.note(valid)

    def judge_one(self, event: Event) -> tuple[EventKind, bytes]:
        """One event, while its attempt is still to prove itself. Raises AttemptFailed at a disproof."""
        attempt = self.attempt
        kind, out = self._observe(event, attempt.bytes_in)
        if kind is _CONTENT or kind is _PREAMBLE:
            self.note(1)
        elif kind is _ERROR:
            raise error_as_data(self.facts.error)
        elif kind is EventKind.INVALID and attempt.state.phase is Phase.PROVING:
            raise AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="not_json")
        return kind, out

    def observe_rest(self, data: bytes) -> None:
        """What comes after the terminal: looked at (a late usage), never relayed, never an error."""
        with contextlib.suppress(EventTooLarge):
            for event in self._parser.feed(data):
                self._observe(event, self.attempt.bytes_in)

    def note(self, valid: int) -> None:
        attempt = self.attempt
        if valid:
            attempt.events += valid
            attempt.note_valid_event()  # events of one read came together: one time stamp
        facts, phase = self.facts, attempt.state.phase
        if facts.every_choice_finished and not facts.ends_with_body and phase is Phase.STREAMING:
            attempt.state.apply(Signal.CHOICES_FINISHED, attempt.clock.now())


async def demand_event_stream(attempt: Attempt) -> None:
    """Moves the attempt into PROVING, or raises what the answer is instead of an event stream."""
    media = attempt.headers.media_type
    if is_json(media):
        attempt.state.apply(Signal.WHOLE_HEADERS, attempt.clock.now())
        raise await _json_instead(attempt)
    if media not in {EVENT_STREAM, "text/plain", ""}:
        raise AttemptFailed(EndReason.BAD_CONTENT_TYPE, error_class="content_type")
    attempt.state.apply(Signal.STREAM_HEADERS, attempt.clock.now())


def note_content_type(attempt: Attempt) -> None:
    """A stream under another name is relayed all the same, but not in silence."""
    if attempt.headers.media_type != EVENT_STREAM:
        attempt.facts.add_soft_error("content_type", 0)
        attempt.is_misnamed = True


async def _json_instead(attempt: Attempt) -> AttemptFailed:
    """A JSON body where a stream is due: an error in a 200, or a whole answer nobody asked for."""
    body = await read_body(attempt)
    try:
        answer = attempt.request.dialect.inspect_whole(body)
    except ValueError:
        return AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="not_json")
    if answer.error is not None:
        return error_as_data(answer.error)
    return AttemptFailed(EndReason.BAD_CONTENT_TYPE, error_class="json_for_stream")
