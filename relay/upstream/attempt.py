"""One try against one channel and key: request, headers, proof, and reading to the end.

`Attempt.run` returns how the attempt ended if its answer was whole, and raises `AttemptFailed` if not.
It is interrupted from outside by cancelling its task; `expired` then tells that a timer did it.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import httpx

from relay.core.dialects.base import StreamFacts
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed, SecretUnavailable
from relay.core.headers import response_headers
from relay.core.request import RelayRequest
from relay.core.stream_state import AttemptState, Phase
from relay.core.usage import TokenUsage, merged
from relay.upstream.answer import Answer, Head
from relay.upstream.deadline import Deadline
from relay.upstream.failures import failure_of, read_rejection
from relay.upstream.modes import Mode
from relay.upstream.plan import AttemptPlan, upstream_request
from relay.upstream.ports import Clock
from relay.upstream.transports.contract import (
    EXT_CONNECT_TIMEOUT_S,
    EXT_FRESH_CONNECTION,
    EXT_PROXY,
    EXT_TRACE,
    BodyStream,
    DialTrace,
    RelayTransport,
)

_UNSENT_POLL_S = 0.25
"""While the request is not sent, the header timer cannot know its start: it looks again so often."""
_NO_HEADERS = response_headers(())


class Rivals(Protocol):
    """What an attempt that runs beside another one asks before it answers."""

    def win(self, attempt: "Attempt") -> None:
        """It has proved itself: the others are stopped in this step."""
        ...

    def may_go(self, attempt: "Attempt") -> bool:
        """Whether an answer that wins no race may go on: nobody else is left."""
        ...

    async def turn(self, attempt: "Attempt") -> None:
        """Waits until it may."""
        ...


Reading = Callable[["Attempt"], Awaitable[EndReason]]
"""One way to read a 2xx answer; see `relay.upstream.readings`."""


class Marks:
    """When what happened: monotonic seconds, but for `started_wall` (since the epoch)."""

    __slots__ = ("ended_at", "first_byte_at", "first_event_at", "headers_at", "started_at", "started_wall")

    def __init__(self, started_at: float, started_wall: float) -> None:
        self.started_at = started_at
        self.started_wall = started_wall
        self.headers_at: float | None = None
        self.first_byte_at: float | None = None
        self.first_event_at: float | None = None
        self.ended_at = started_at


class Attempt:
    """Shared state of one try. The readings write `facts`, `events` and the two conclusions."""

    __slots__ = (
        "_body", "_deadline", "_interrupt", "_is_waiting", "_transport", "_watched", "answer",
        "bytes_in", "clock", "drain_bytes_left", "end_quietly", "events", "expired", "facts",
        "finish_reasons", "headers", "is_committed", "is_detached", "is_misnamed", "is_open",
        "is_processed", "marks", "max_event_bytes", "plan", "rejection", "request", "response_status",
        "revealed", "rivals", "state", "trace", "whole_usage",
    )  # fmt: skip

    def __init__(
        self,
        plan: AttemptPlan,
        request: RelayRequest,
        answer: Answer,
        *,
        transport: RelayTransport,
        clock: Clock,
        interrupt: Callable[[], None],
        max_event_bytes: int,
    ) -> None:
        self.plan = plan
        self.request = request
        self.answer = answer
        self.clock = clock
        self.max_event_bytes = max_event_bytes
        self.state = AttemptState(plan.limits, clock.now())
        self.facts = StreamFacts()
        self.expired: EndReason | None = None
        self.is_committed = False
        self.is_misnamed = False
        """A stream that does not call itself one: accepted, but it wins no race."""
        self.rivals: Rivals | None = None
        """Set while another attempt may run beside this one."""
        self.events = 0
        self.bytes_in = 0
        self.is_processed = False
        """Every event was understood and handed on."""
        self.is_detached = False
        """The client has left; what is read now is read for its usage only."""
        self.drain_bytes_left: int | None = None
        self.is_open = False
        """Inside `run`, before its clean-up: only then may the task be cancelled."""
        self.end_quietly: Callable[[], EndReason] = _cannot_end_quietly
        """Set by a reading: completes the answer after a silence in which every choice had finished."""
        self.response_status = 0
        """0 until the headers are there."""
        self.whole_usage: TokenUsage | None = None
        self.finish_reasons: tuple[str, ...] = ()
        self._transport = transport
        self._interrupt = interrupt
        self.trace = DialTrace()
        self.marks = Marks(clock.now(), clock.wall())
        self.headers = _NO_HEADERS
        self.revealed = ""
        """The credential in use, to take it out of what the upstream quotes."""
        self.rejection: AttemptFailed | None = None
        """What the headers of an error answer said, should its body not come."""
        self._deadline = Deadline(clock, self._on_deadline)
        self._body: BodyStream | None = None
        self._watched: Phase | None = None
        """The phase whose timers are armed."""
        self._is_waiting = False

    async def run(self, reading: Reading) -> EndReason:
        self.is_open = True
        try:
            await self._open()
            return await reading(self)
        finally:
            self.is_open = False
            self.marks.ended_at = self.clock.now()
            self._deadline.close()
            self._let_go()
            await self._close()

    def _let_go(self) -> None:
        """It is over, and kept for the record only: it drops what leads back to it.

        Without circles a request's objects are freed with its end. Left to the garbage collector they cost
        7 % of a short stream, for its passes and for memory that is never warm.
        """
        self._interrupt = _nothing
        self.rivals = None
        if self.expired is not EndReason.COMPLETED_WITHOUT_TERMINAL:  # else it is still to end quietly
            self.end_quietly = _cannot_end_quietly
        if self._body is not None:
            self._body.sink = None

    # For the readings.

    async def read(self) -> bytes:
        """Everything the upstream has sent meanwhile; b"" at its end. Raises AttemptFailed."""
        assert self._body is not None  # noqa: S101  set by _open
        if self._watched is not self.state.phase and not self._body.has_come_whole:
            self.watch()
        self._is_waiting = True
        try:
            data = await self._body.read_some()
        except httpx.TransportError as error:
            raise failure_of(error) from error
        finally:
            self._is_waiting = False
        if data:
            self.note_bytes(data)
        return data

    def note_valid_event(self) -> None:
        """Of the read that came last."""
        now = self.state.last_byte_at or self.clock.now()
        if self.marks.first_event_at is None:
            self.marks.first_event_at = now
        self.state.valid_event(now)

    def offer_reads_to(self, sink: Callable[[bytes], bool]) -> None:
        """What arrives while a read waits is offered to `sink` first; see `BodyStream.sink`."""
        if self._body is not None:
            self._body.sink = sink

    def watch(self) -> None:
        """A phase or its limits have changed.

        Within a phase each byte only moves what is due to a later time: the timer that is armed fires too
        early then, looks again, and sleeps on. So it costs nothing per read.
        """
        self._watched = self.state.phase
        self._deadline.move(self.state.due()[0])

    def commit(self, head: Head) -> None:
        """The commit point: the client gets this head, and no other attempt may answer."""
        self.claim()
        self.is_committed = True
        self.answer.begin(head)

    def claim(self) -> None:
        """It has proved itself; an attempt that runs beside it has lost."""
        if self.rivals is not None:
            self.rivals.win(self)

    async def turn(self) -> None:
        """A misnamed stream waits here until it is alone. The upstream's timers do not count that time."""
        if self.rivals is not None and not self.may_go:
            began = self.clock.now()
            await self.rivals.turn(self)
            self.state.shift(self.clock.now() - began)

    @property
    def may_go(self) -> bool:
        return not self.is_misnamed or self.rivals is None or self.rivals.may_go(self)

    # The wire.

    async def _open(self) -> None:
        try:
            self.revealed = self.plan.key.secret.reveal()
        except SecretUnavailable as error:
            raise AttemptFailed(EndReason.CONNECT_FAILED, error_class=f"secret_{error}") from error
        request = upstream_request(self.request, self.plan, self.revealed)
        request.extensions = {
            EXT_TRACE: self.trace,
            EXT_CONNECT_TIMEOUT_S: self.plan.channel.connect_timeout_s,
            EXT_PROXY: self.plan.channel.proxy_url or None,
            EXT_FRESH_CONNECTION: not self.request.is_replayable,
        }
        self._deadline.move(self.clock.now() + _UNSENT_POLL_S)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as error:
            raise failure_of(error) from error
        finally:
            self._deadline.pause()
            self._copy_trace()
        assert isinstance(response.stream, BodyStream)  # noqa: S101  our transports give nothing else
        self._body = response.stream
        self.marks.headers_at = self.clock.now()
        if self.state.sent_at is None:  # answered before the whole request was taken
            self.state.sent_at = self.marks.headers_at
        self.response_status = response.status_code
        self.headers = response_headers(response.raw_headers)
        if not (200 <= response.status_code < 300 or self._is_not_modified()):
            raise await read_rejection(self)

    def _is_not_modified(self) -> bool:
        return self.response_status == 304 and self.plan.mode is Mode.RAW

    async def _close(self) -> None:
        if self._body is not None:
            with contextlib.suppress(httpx.TransportError):
                await self._body.aclose()

    def _on_deadline(self) -> None:
        if self.state.phase is Phase.REQUESTING:
            self._copy_trace()
        elif not self._is_waiting:  # the client keeps us waiting, not the upstream: the next read arms it
            self._watched = None
            return
        due, reason = self.state.due()
        now = self.clock.now()
        if now >= due:
            self.expired = reason
            self._interrupt()
            return
        if self.state.phase is Phase.REQUESTING and self.state.sent_at is None:
            due = min(due, now + _UNSENT_POLL_S)
        self._deadline.move(due)

    def _copy_trace(self) -> None:
        self.state.connected_at = self.trace.connected_at
        self.state.sent_at = self.trace.sent_at

    def note_bytes(self, data: bytes) -> None:
        now = self.clock.now()
        if self.marks.first_byte_at is None:
            self.marks.first_byte_at = now
        self.state.last_byte_at = now
        self.bytes_in += len(data)
        if self.drain_bytes_left is not None:
            self.drain_bytes_left -= len(data)
            if self.drain_bytes_left < 0:
                self.state.read_until = now
                self._watched = None  # earlier than what is armed

    @property
    def usage(self) -> TokenUsage | None:
        """As reported; what the request itself tells counts once there is an answer."""
        reported = self.facts.usage or self.whole_usage
        known = self.request.ask.known_usage
        if known is None or not self.is_committed:
            return reported
        return known if reported is None else merged(known, reported)


def _nothing() -> None:
    pass


def _cannot_end_quietly() -> EndReason:
    raise AttemptFailed(EndReason.GATEWAY_ERROR, error_class="no_quiet_end")
