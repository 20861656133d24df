"""A stream for a stream: each event goes on as soon as it is whole, once the attempt has proved itself."""

import contextlib

from relay.core.dialects.base import EventKind
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.sse import Event
from relay.core.stream_state import Signal
from relay.upstream.answer import stream_head
from relay.upstream.attempt import Attempt
from relay.upstream.ports import Timer
from relay.upstream.readings.events import EventReader, demand_event_stream, note_content_type

HELD_EVENTS = 64
HELD_BYTES = 256 * 1024


async def read_stream(attempt: Attempt) -> EndReason:
    await demand_event_stream(attempt)
    return await StreamRelay(attempt).run()


class StreamRelay:
    """Holds preamble events back until the first that carries something, then passes all on."""

    __slots__ = (
        "_attempt", "_facts", "_head", "_held", "_held_bytes", "_held_events", "_hold_timer",
        "_pump", "_reader",
    )  # fmt: skip

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._reader = EventReader(attempt)
        self._facts = attempt.facts
        self._pump = attempt.answer.pump
        form = attempt.request.ask.stream_form
        self._head = stream_head(attempt.headers.passed, attempt.response_status, form)
        self._held: list[bytes] = []
        self._held_events = 0
        self._held_bytes = 0
        self._hold_timer: Timer | None = None
        attempt.end_quietly = self._end_without_terminal
        note_content_type(attempt)

    async def run(self) -> EndReason:
        attempt, pump = self._attempt, self._pump
        try:
            while data := await attempt.read():
                if attempt.is_misnamed and not attempt.is_committed:
                    await attempt.turn()
                out = self._take(data)
                if self._facts.terminal_seen:
                    pump.put_now(out)  # the last there is: whole, whatever ends the attempt from here on
                    return await self._end_with_terminal()
                if out and pump.is_full:
                    attempt.state.shift(await pump.put(out))
                else:
                    pump.put_now(out)
            if attempt.is_misnamed and not attempt.is_committed:
                await attempt.turn()
            return self._end_of_body()
        except AttemptFailed:
            if self._facts.every_choice_finished and attempt.is_committed and not self._is_withheld:
                return self._end_without_terminal()
            raise
        finally:
            if self._hold_timer is not None:
                self._hold_timer.cancel()

    @property
    def _is_withheld(self) -> bool:
        """What has come was not passed on, so that it must not count as a whole answer."""
        return False

    def _take(self, data: bytes) -> bytes:
        """What the client gets of this read: b"" while everything is held."""
        if not self._attempt.is_committed:
            return self._prove(data)
        ready: list[bytes] = []
        try:
            self._reader.read(data, ready)
        except AttemptFailed:
            self._pump.put_now(b"".join(ready))  # what came whole before the failure is the client's
            raise
        return b"".join(ready)

    def _pass_on(self, data: bytes) -> bool:
        """Queues a read of nothing but text in the step in which it came, without the reader's turn.

        Whatever is out of the ordinary is left to the reader: a full queue, a client that has left, an end.
        """
        attempt, pump = self._attempt, self._pump
        if pump.is_full or attempt.is_detached or not attempt.is_open:
            return False
        count = self._reader.plain_events(data)
        if count:
            attempt.note_bytes(data)
            self._reader.note(count)
            pump.put_now(data)
        return count > 0

    def _prove(self, data: bytes) -> bytes:
        """Looks at each event until one carries something; from there on the read is judged as a whole.

        Most often that is the first one, which is therefore looked at before the others are parsed.

        Nothing has been sent yet, so an error behind that event in the same read still fails the attempt.
        """
        first, rest = _cut_off_first(data)
        if self._is_proved_by(self._reader.feed(first)):
            self._reader.read(rest, self._held)
            return self._commit()
        if rest and self._is_proved_by(self._reader.feed(rest)):
            return self._commit()
        if not self._attempt.events:
            return b""
        if self._facts.terminal_seen or self._is_hold_over():
            return self._commit()
        self._start_hold_timer()
        return b""

    def _is_proved_by(self, events: list[Event]) -> bool:
        """Whether one of them carries something; all are held then."""
        for number, event in enumerate(events, 1):
            kind, out = self._reader.judge_one(event)
            if kind is EventKind.COMMENT and not self._held_events:
                continue  # an upstream keepalive proves nothing, and nobody waits for it
            if kind is EventKind.TERMINAL and not self._attempt.events:
                raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="only_terminal")
            self._hold(out)
            if kind is EventKind.CONTENT:
                self._reader.judge(events[number:], self._held)
                return True
        return False

    def _hold(self, out: bytes) -> None:
        self._held.append(out)
        self._held_events += 1
        self._held_bytes += len(out)

    def _is_hold_over(self) -> bool:
        return (
            self._attempt.plan.policy.preamble_hold_s <= 0
            or self._held_events >= HELD_EVENTS
            or self._held_bytes >= HELD_BYTES
        )

    def _start_hold_timer(self) -> None:
        if self._hold_timer is None:
            attempt = self._attempt
            hold_s = attempt.plan.policy.preamble_hold_s
            self._hold_timer = attempt.clock.call_at(attempt.clock.now() + hold_s, self._release)

    def _release(self) -> None:
        """The hold is over: the preamble goes out while the reader waits for more."""
        attempt = self._attempt
        if attempt.is_open and not attempt.is_committed and attempt.may_go:
            self._pump.put_now(self._commit())

    def _commit(self) -> bytes:
        """The commit point. Returns what was held."""
        self._attempt.commit(self._head)
        self._attempt.offer_reads_to(self._pass_on)
        held = b"".join(self._held)
        self._held.clear()
        return held

    async def _end_with_terminal(self) -> EndReason:
        """The client is done. The timer that ends this wait makes it `completed` all the same."""
        attempt = self._attempt
        attempt.is_processed = True
        attempt.state.apply(Signal.TERMINAL, attempt.clock.now())
        self._pump.finish()
        with contextlib.suppress(AttemptFailed):
            while data := await attempt.read():
                self._reader.observe_rest(data)
        return EndReason.COMPLETED

    def _end_of_body(self) -> EndReason:
        attempt = self._attempt
        rest = self._take_last(self._reader.close())
        if not attempt.events:
            raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="no_event")
        attempt.is_processed = True
        if not attempt.is_committed:
            if not (self._is_whole or self._facts.every_choice_finished):
                raise AttemptFailed(EndReason.INCOMPLETE, error_class="only_preamble")
            self._pump.put_now(self._commit())
        self._pump.put_now(rest)
        if self._is_whole:
            if self._facts.ends_with_body:
                self._facts.terminal_seen = True
                self._pump.put_now(self._reader.inspector.closing())
            return EndReason.COMPLETED
        if self._facts.every_choice_finished:
            return self._end_without_terminal()
        raise AttemptFailed(EndReason.INCOMPLETE, error_class="eof")

    def _take_last(self, events: list[Event]) -> bytes:
        """What the client gets of what the end of the body completed."""
        rest: list[bytes] = []
        self._reader.judge(events, rest)
        return b"".join(rest)

    @property
    def _is_whole(self) -> bool:
        """At the end of the body: the protocol's end mark was seen, or it has none."""
        facts = self._facts
        return facts.is_whole_at_end or not facts.terminal_required

    def _end_without_terminal(self) -> EndReason:
        self._attempt.is_processed = True
        self._pump.put_now(self._reader.inspector.closing())
        return EndReason.COMPLETED_WITHOUT_TERMINAL


def _cut_off_first(data: bytes) -> tuple[bytes, bytes]:
    """The first event, or what there is of it, and the rest."""
    first, blank_line, rest = data.partition(b"\n\n")
    return first + blank_line, rest
