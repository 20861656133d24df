"""The life of one attempt as tables: its phases, what moves it on, and which timer may end it.

Pure: times are seconds of a monotonic clock that the caller reads. A timer runs only while the reader
waits for the upstream; `AttemptState.shift` takes out the time a slow client cost.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

import msgspec

from relay.core.end_reasons import EndReason

CONNECT_TIMEOUT_S = 10.0
UPLOAD_TIMEOUT_S = 60.0
FIRST_BYTE_TIMEOUT_S = 30.0
USAGE_WAIT_S = 5.0
"""After every choice has finished: how long the usage and the terminal may still take."""
ERROR_BODY_TIMEOUT_S = 5.0
"""For the message in an error answer; its status is known already."""
EOF_WAIT_S = 0.25
"""After the terminal the client is done; so long we wait for the body's end, to reuse the connection."""
KEEPALIVE_S = 15.0
WRITE_TIMEOUT_S = 60.0
IMAGE_WHOLE_EXTRA_S = 60.0
EARLY_COMMIT_FORCED_S = 15.0
"""`early_commit_seconds` when it is not set and the channel is `force_non_stream`."""
DRAIN_S = 30.0
DRAIN_BYTES = 8 * 1024 * 1024
DRAINS_PER_PROCESS = 32

NEVER = math.inf


class Phase(StrEnum):
    REQUESTING = "requesting"
    """Dialling, uploading, waiting for response headers."""
    READING_ERROR = "reading_error"
    """A non-2xx body, read for its message."""
    PROVING = "proving"
    """2xx headers of a stream, no valid event yet."""
    STREAMING = "streaming"
    FINISHING = "finishing"
    """Every choice has finished; usage and terminal may follow."""
    CLOSING = "closing"
    """The terminal was seen; only the end of the body is awaited."""
    READING_WHOLE = "reading_whole"
    READING_RAW = "reading_raw"
    """A pass-through or binary body."""


class Signal(StrEnum):
    REJECTED = "rejected"
    STREAM_HEADERS = "stream_headers"
    WHOLE_HEADERS = "whole_headers"
    RAW_HEADERS = "raw_headers"
    VALID_EVENT = "valid_event"
    CHOICES_FINISHED = "choices_finished"
    TERMINAL = "terminal"


TRANSITIONS: dict[tuple[Phase, Signal], Phase] = {
    (Phase.REQUESTING, Signal.REJECTED): Phase.READING_ERROR,
    (Phase.REQUESTING, Signal.STREAM_HEADERS): Phase.PROVING,
    (Phase.REQUESTING, Signal.WHOLE_HEADERS): Phase.READING_WHOLE,
    (Phase.REQUESTING, Signal.RAW_HEADERS): Phase.READING_RAW,
    (Phase.PROVING, Signal.VALID_EVENT): Phase.STREAMING,
    (Phase.STREAMING, Signal.VALID_EVENT): Phase.STREAMING,
    (Phase.STREAMING, Signal.CHOICES_FINISHED): Phase.FINISHING,
    (Phase.FINISHING, Signal.VALID_EVENT): Phase.FINISHING,
    (Phase.FINISHING, Signal.CHOICES_FINISHED): Phase.FINISHING,
    (Phase.STREAMING, Signal.TERMINAL): Phase.CLOSING,
    (Phase.FINISHING, Signal.TERMINAL): Phase.CLOSING,
}

_HEADER_SIGNALS = frozenset(
    {Signal.REJECTED, Signal.STREAM_HEADERS, Signal.WHOLE_HEADERS, Signal.RAW_HEADERS}
)


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Seconds; 0 = that timer is off."""

    connect_s: float = CONNECT_TIMEOUT_S
    """Dial → connected, TLS included. The transport keeps it too; this one holds in any case."""
    header_s: float = 0.0
    whole_s: float = 0.0
    """Request sent → answer complete: the non-stream total."""
    first_event_s: float = 0.0
    idle_s: float = 0.0
    event_idle_s: float = 0.0
    total_s: float = 0.0
    first_byte_s: float = FIRST_BYTE_TIMEOUT_S
    usage_wait_s: float = USAGE_WAIT_S
    error_body_s: float = ERROR_BODY_TIMEOUT_S
    eof_wait_s: float = EOF_WAIT_S
    upload_s: float = UPLOAD_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class TimerRow:
    """since: the moment it counts from; limit: the field of `Limits` that holds its seconds."""

    since: Callable[["AttemptState"], float | None]
    limit: Callable[[Limits], float]
    reason: EndReason


def _row(since: str, limit: str, reason: EndReason) -> TimerRow:
    return TimerRow(attrgetter(since), attrgetter(limit), reason)


_WHOLE = _row("sent_at", "whole_s", EndReason.NON_STREAM_TIMEOUT)
_TOTAL = _row("headers_at", "total_s", EndReason.TOTAL_TIMEOUT)
_IDLE = _row("last_byte_at", "idle_s", EndReason.IDLE_TIMEOUT)

TIMERS: dict[Phase, tuple[TimerRow, ...]] = {
    Phase.REQUESTING: (
        _row("dialling_since", "connect_s", EndReason.CONNECT_FAILED),
        _row("uploading_since", "upload_s", EndReason.HEADER_TIMEOUT),
        _row("sent_at", "header_s", EndReason.HEADER_TIMEOUT),
        _WHOLE,
    ),
    Phase.READING_ERROR: (_row("headers_at", "error_body_s", EndReason.UPSTREAM_REJECTED),),
    Phase.PROVING: (
        _row("last_byte_at", "first_byte_s", EndReason.FIRST_BYTE_TIMEOUT),
        _row("headers_at", "first_event_s", EndReason.FIRST_EVENT_TIMEOUT),
        _TOTAL,
        _WHOLE,
    ),
    Phase.STREAMING: (
        _IDLE,
        _row("last_event_at", "event_idle_s", EndReason.IDLE_TIMEOUT),
        _TOTAL,
        _WHOLE,
    ),
    # The answer is whole: what comes behind its finish prolongs it, but not beyond the totals.
    Phase.FINISHING: (
        _row("last_event_at", "usage_wait_s", EndReason.COMPLETED_WITHOUT_TERMINAL),
        _row("headers_at", "total_s", EndReason.COMPLETED_WITHOUT_TERMINAL),
        _row("sent_at", "whole_s", EndReason.COMPLETED_WITHOUT_TERMINAL),
    ),
    Phase.CLOSING: (_row("terminal_at", "eof_wait_s", EndReason.COMPLETED),),
    # The second and third where a stream was asked for and JSON came instead: then there is no whole_s.
    Phase.READING_WHOLE: (_WHOLE, _IDLE, _TOTAL),
    Phase.READING_RAW: (_IDLE,),
}
"""Which timers run in which phase. Each belongs to the phase; the earliest that is due ends the attempt."""

READ_ON: dict[Phase, EndReason] = {
    Phase.STREAMING: EndReason.CLIENT_DISCONNECTED,
    Phase.FINISHING: EndReason.COMPLETED_WITHOUT_TERMINAL,
}
"""What an attempt ends with when `read_until` has come: the client has left, its usage was still read."""


class AttemptState:
    """Where one attempt is, and when it has waited too long."""

    __slots__ = (
        "connected_at", "headers_at", "last_byte_at", "last_event_at", "limits", "phase", "read_until",
        "sent_at", "started_at", "terminal_at",
    )  # fmt: skip

    def __init__(self, limits: Limits, started_at: float) -> None:
        self.limits = limits
        self.started_at = started_at
        self.phase = Phase.REQUESTING
        self.connected_at: float | None = None
        self.sent_at: float | None = None
        self.headers_at: float | None = None
        self.last_byte_at: float | None = None
        self.last_event_at: float | None = None
        self.terminal_at: float | None = None
        self.read_until = NEVER
        """Set when the client has left but the usage is still read: ends it whatever the upstream does."""

    @property
    def dialling_since(self) -> float | None:
        return self.started_at if self.connected_at is None else None

    @property
    def uploading_since(self) -> float | None:
        return self.connected_at if self.sent_at is None else None

    def apply(self, signal: Signal, now: float) -> None:
        """Moves the phase. KeyError on a step the table does not know: a bug, never an upstream's doing."""
        self.phase = TRANSITIONS[self.phase, signal]
        if signal is Signal.VALID_EVENT:
            self.last_event_at = now
        elif signal is Signal.TERMINAL:
            self.terminal_at = now
        elif signal in _HEADER_SIGNALS:
            self.headers_at = self.last_byte_at = now

    def valid_event(self, now: float) -> None:
        """`apply(VALID_EVENT)`, without the table where it would change nothing: this is once a read."""
        if self.phase is Phase.STREAMING:
            self.last_event_at = now
        else:
            self.apply(Signal.VALID_EVENT, now)

    def shift(self, seconds: float) -> None:
        """The reader was blocked by a slow client for so long: no upstream timer counts it."""
        for name in ("sent_at", "headers_at", "last_byte_at", "last_event_at"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, value + seconds)

    def due(self) -> tuple[float, EndReason]:
        """When the wait that begins now must end, and what the attempt ends with then."""
        due, reason = NEVER, EndReason.GATEWAY_ERROR
        limits = self.limits
        for row in TIMERS[self.phase]:
            limit_s = row.limit(limits)
            since = row.since(self) if limit_s > 0 else None
            if since is not None and since + limit_s < due:
                due, reason = since + limit_s, row.reason
        if self.read_until < due and self.phase in READ_ON:
            return self.read_until, READ_ON[self.phase]
        return due, reason
