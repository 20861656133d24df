"""The life of one attempt as tables: its phases, what moves it on, and which timer may end it.

Pure: times are seconds of a monotonic clock that the caller reads. A timer runs only while the reader
waits for the upstream; `AttemptState.shift` takes out the time a slow client cost.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from relay.core.end_reasons import EndReason

CONNECT_TIMEOUT_S = 10.0
UPLOAD_TIMEOUT_S = 60.0
FIRST_BYTE_TIMEOUT_S = 30.0
USAGE_WAIT_S = 5.0
"""After every choice has finished: how long the usage and the terminal may still take."""
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
    ENDED = "ended"


class Signal(StrEnum):
    REJECTED = "rejected"
    STREAM_HEADERS = "stream_headers"
    WHOLE_HEADERS = "whole_headers"
    RAW_HEADERS = "raw_headers"
    VALID_EVENT = "valid_event"
    CHOICES_FINISHED = "choices_finished"
    TERMINAL = "terminal"
    END = "end"


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
} | {(phase, Signal.END): Phase.ENDED for phase in Phase}

_HEADER_SIGNALS = frozenset(
    {Signal.REJECTED, Signal.STREAM_HEADERS, Signal.WHOLE_HEADERS, Signal.RAW_HEADERS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds; 0 = that timer is off."""

    connect_s: float = CONNECT_TIMEOUT_S
    """Dial → connected, TLS included. The transport keeps it too; this one holds whatever the transport does."""
    header_s: float = 0.0
    whole_s: float = 0.0
    """Request sent → answer complete: the non-stream total."""
    first_event_s: float = 0.0
    idle_s: float = 0.0
    event_idle_s: float = 0.0
    total_s: float = 0.0
    first_byte_s: float = FIRST_BYTE_TIMEOUT_S
    usage_wait_s: float = USAGE_WAIT_S
    eof_wait_s: float = EOF_WAIT_S
    upload_s: float = UPLOAD_TIMEOUT_S


def _after(start: float | None, limit_s: float) -> float:
    return start + limit_s if limit_s > 0 and start is not None else NEVER


class AttemptState:
    """Where one attempt is, and when it has waited too long."""

    __slots__ = (
        "connected_at", "data_seen", "headers_at", "last_byte_at", "last_event_at",
        "limits", "phase", "read_until", "sent_at", "started_at",
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
        self.data_seen = False
        """A `data:` chunk arrived: the first-byte timer is over."""
        self.read_until = NEVER
        """Set when the client has left but the usage is still read: ends it whatever the upstream does."""

    def apply(self, signal: Signal, now: float) -> None:
        """Moves the phase. KeyError on a step the table does not know: a bug, never an upstream's doing."""
        self.phase = TRANSITIONS[self.phase, signal]
        if signal is Signal.VALID_EVENT:
            self.last_event_at = now
            self.data_seen = True
        elif signal in _HEADER_SIGNALS:
            self.headers_at = self.last_byte_at = now

    def shift(self, seconds: float) -> None:
        """The reader was blocked by a slow client for so long: no upstream timer counts it."""
        for name in ("sent_at", "headers_at", "last_byte_at", "last_event_at"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, value + seconds)

    def due(self) -> tuple[float, EndReason]:
        """When the wait that begins now must end, and what the attempt ends with then."""
        return min(self._timers())

    def _timers(self) -> list[tuple[float, EndReason]]:
        limits = self.limits
        timers = [(_after(self.sent_at, limits.whole_s), EndReason.NON_STREAM_TIMEOUT)]
        match self.phase:
            case Phase.REQUESTING:
                timers.append((_after(self.sent_at, limits.header_s), EndReason.HEADER_TIMEOUT))
                if self.connected_at is None:
                    timers.append((_after(self.started_at, limits.connect_s), EndReason.CONNECT_FAILED))
                elif self.sent_at is None:
                    timers.append((_after(self.connected_at, limits.upload_s), EndReason.HEADER_TIMEOUT))
            case Phase.PROVING:
                if not self.data_seen:
                    timers.append(
                        (_after(self.last_byte_at, limits.first_byte_s), EndReason.FIRST_BYTE_TIMEOUT)
                    )
                timers.append((_after(self.headers_at, limits.first_event_s), EndReason.FIRST_EVENT_TIMEOUT))
            case Phase.STREAMING:
                timers.append((_after(self.last_byte_at, limits.idle_s), EndReason.IDLE_TIMEOUT))
                timers.append((_after(self.last_event_at, limits.event_idle_s), EndReason.IDLE_TIMEOUT))
                timers.append((_after(self.headers_at, limits.total_s), EndReason.TOTAL_TIMEOUT))
                timers.append((self.read_until, EndReason.CLIENT_DISCONNECTED))
            case Phase.FINISHING:
                quiet = min(_after(self.last_event_at, limits.usage_wait_s), self.read_until)
                timers.append((quiet, EndReason.COMPLETED_WITHOUT_TERMINAL))
            case Phase.CLOSING:
                timers.append((_after(self.last_byte_at, limits.eof_wait_s), EndReason.COMPLETED))
            case Phase.READING_RAW:
                timers.append((_after(self.last_byte_at, limits.idle_s), EndReason.IDLE_TIMEOUT))
                timers.append((_after(self.headers_at, limits.total_s), EndReason.TOTAL_TIMEOUT))
            case Phase.READING_ERROR:
                timers.append((_after(self.headers_at, limits.usage_wait_s), EndReason.UPSTREAM_REJECTED))
            case Phase.READING_WHOLE | Phase.ENDED:
                pass
        return timers
