"""What is recorded of a relay request and its attempts. Reported once, by the runtime, when all is over.

No prompt, completion, tool argument or secret: sizes, counts, classes and times only. Instances are
encoded with msgspec on their way to the store; `FORMAT_VERSION` changes when a field changes meaning.
They are msgspec structs, as are other values made once a request: a frozen dataclass takes ten times as
long to make.
"""

import msgspec

from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage

FORMAT_VERSION = 1


class SoftError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fault the stream survived. offset: bytes read from the upstream before it."""

    error_class: str
    offset: int


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One try against one channel and key. Times are milliseconds from the attempt's start."""

    number: int
    channel_id: int
    channel_name: str
    upstream_key_id: int | None
    upstream_host: str
    model_sent: str
    stream_asked: bool
    stream_sent: bool
    end_reason: EndReason
    decision: str
    """Why this channel and key, and what follows: readable by an operator."""
    error_class: str = ""
    status: int | None = None
    upstream_request_id: str = ""
    answer_id: str = ""
    """How the upstream names its answer in the body."""
    started_at: float = 0.0
    """Seconds since the epoch."""
    connect_ms: float | None = None
    header_ms: float | None = None
    first_byte_ms: float | None = None
    first_event_ms: float | None = None
    last_event_at: float | None = None
    """Seconds since the epoch."""
    duration_ms: float = 0.0
    events: int = 0
    bytes: int = 0
    keepalives: int = 0
    finish_reasons: tuple[str, ...] = ()
    soft_error_count: int = 0
    soft_errors: tuple[SoftError, ...] = ()
    """The first 20."""
    terminal_seen: bool = False
    committed: bool = False
    upstream_connected: bool = False
    stream_processed: bool = False
    stream_finished: bool = False
    usage_complete: bool = False
    client_consumed: bool = False
    usage: TokenUsage | None = None
    possible_duplicate_charge: bool = False
    """This attempt repeated a request that its upstream may have carried out and billed already."""
    is_hedge: bool = False
    """A backup that ran beside the first attempt."""


class RequestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One relay request, final. `end_reason` is that of its winning, else its last attempt."""

    request_id: str
    tenant_id: int
    api_key_id: int
    group: str
    method: str
    path: str
    """Without query."""
    family: str
    dialect: str
    model_asked: str
    model_answered: str
    """What the upstream calls the model that answered."""
    stream_asked: bool
    end_reason: EndReason
    status: int
    """The status sent to the client; 499 when it left before one was sent."""
    started_at: float
    """Seconds since the epoch."""
    duration_ms: float
    first_event_ms: float | None = None
    client_request_id: str = ""
    request_bytes: int = 0
    response_bytes: int = 0
    message_count: int = 0
    tool_count: int = 0
    model_served: str = ""
    """The model that was served, in the tenant's words: the one asked for, or a fallback in its stead."""
    usage: TokenUsage | None = None
    attempts: tuple[AttemptOutcome, ...] = ()
    format_version: int = FORMAT_VERSION
