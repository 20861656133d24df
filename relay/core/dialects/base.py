"""What every dialect offers. One module a dialect, all shaped alike, registered in `relay.core.dialects`.

A dialect knows how a client asks and how an answer looks on the wire; it does no I/O and never raises
into the relay: a frame it cannot read becomes a soft error.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from relay.core.errors import Refusal
from relay.core.estimate import ReceivedText
from relay.core.outcomes import SoftError
from relay.core.sse import KEEPALIVE, Event
from relay.core.usage import TokenUsage

SOFT_ERRORS_KEPT = 20
TOOL_CALL_INVALID = "tool_call_invalid"
"""Class of the fault of a tool call that is not whole or not valid."""


class EventKind(Enum):
    """What one upstream event means to the stream runtime."""

    PREAMBLE = 1
    """Valid, but announces only: role, empty delta, prompt-filter results. May be held back."""
    CONTENT = 2
    """Valid and carries something of the answer."""
    TERMINAL = 3
    """The dialect's end mark. Not a valid event: a stream of nothing else is empty."""
    ERROR = 4
    """The upstream says in-band that it failed; `StreamFacts.error` tells how."""
    INVALID = 5
    """Not what the dialect sends (not JSON, say). Never relayed."""
    COMMENT = 6
    """No data: an upstream keepalive. Passes, but proves nothing."""


class Relayed(NamedTuple):
    """The verdict on one event, and the bytes the client gets for it (b"" = withheld)."""

    kind: EventKind
    out: bytes


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """An error the upstream sent as data. message is the upstream's own text, not yet scrubbed."""

    message: str
    kind: str = ""
    code: str = ""
    param: str | None = None
    status: int | None = None


@dataclass(slots=True)
class StreamFacts:
    """What an inspector has learnt so far. Written by the inspector alone."""

    usage: TokenUsage | None = None
    finish_reasons: dict[int, str] = field(default_factory=dict)
    """Choice index → finish reason."""
    every_choice_finished: bool = False
    terminal_seen: bool = False
    terminal_required: bool = True
    """False where the protocol is not known (pass-through): a clean end of the body is then the end mark,
    so the stream is `completed` without a terminal and is never `incomplete`."""
    ends_with_body: bool = False
    """The protocol has no end mark: once every choice has finished, a clean end of the body is it. A finish
    alone says little there (Gemini goes on after one when it has run a tool), so nothing is timed by it."""
    error: UpstreamError | None = None
    model: str = ""
    answer_id: str = ""
    """How the upstream names its answer, as it came: some tell the usage later to who asks by it."""
    received: ReceivedText = field(default_factory=ReceivedText)
    """Text, reasoning and tool arguments, for an estimate should the usage never come."""
    tool_call_count: int = 0
    is_tool_call_broken: bool = False
    """One of them is not whole or not valid, as far as they have been checked."""
    upstream_tool_started: bool = False
    """The upstream began to run a tool itself (search, code, MCP): the request must not be asked again."""
    soft_error_count: int = 0
    soft_errors: list[SoftError] = field(default_factory=list)

    @property
    def is_whole_at_end(self) -> bool:
        """Of a protocol that is known: whether the answer is whole if the body ends here."""
        return self.terminal_seen or (self.ends_with_body and self.every_choice_finished)

    def add_soft_error(self, error_class: str, offset: int) -> None:
        self.soft_error_count += 1
        self.is_tool_call_broken |= error_class == TOOL_CALL_INVALID
        if len(self.soft_errors) < SOFT_ERRORS_KEPT:
            self.soft_errors.append(SoftError(error_class=error_class, offset=offset))


class StreamInspector(Protocol):
    """Reads one upstream stream along and decides the repairs. One instance an attempt."""

    facts: StreamFacts

    def observe(self, event: Event, offset: int) -> tuple[EventKind, bytes]:
        """`Relayed`, or as a bare tuple where each nanosecond counts. Never raises.

        offset: upstream bytes before this event, for soft errors.
        """
        ...

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:
        """How much at the start of `data` is whole events that pass as they are: (events, bytes).

        For the most common read only: more text, nothing to repair. `data` begins where an event does.
        in_full: all of it or nothing. Has no effect when it returns (0, 0): look at each event.
        """
        ...

    def closing(self) -> bytes:
        """What must still be sent after a clean end in which every choice finished.

        The missing terminal, or b"". Checks that need the whole stream (tool calls) happen here.
        """
        ...


class WholeAnswer(msgspec.Struct, frozen=True):
    """What a whole (non-streamed) 2xx body says. error: set when the body is an error object."""

    usage: TokenUsage | None = None
    finish_reasons: tuple[str, ...] = ()
    model: str = ""
    answer_id: str = ""
    error: UpstreamError | None = None
    soft_errors: tuple[str, ...] = ()
    """Classes of the faults the answer survived."""


class AggregationFailed(ValueError):
    """The stream cannot become one whole answer; the text is a scrubbed error class."""


class Aggregator(Protocol):
    """Builds the whole answer out of a stream that the client did not ask for."""

    def add(self, event: Event) -> None: ...

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` when incomplete or a tool call is not valid."""
        ...


class NoAggregator:
    """Of answers that are never streamed: a stream that nobody asked for cannot become one of them."""

    def add(self, event: Event) -> None:
        """Nothing is kept."""

    def whole(self) -> bytes:
        raise AggregationFailed("not_streamed")


class StreamForm(msgspec.Struct, frozen=True):
    """How a stream is written for the client. keepalive: bytes that its clients skip between two events."""

    content_type: bytes = b"text/event-stream; charset=utf-8"
    keepalive: bytes = KEEPALIVE
    can_begin_with_error: bool = True


EVENT_STREAM = StreamForm()


class Target(Protocol):
    """Where a request goes in a protocol that names model and form in the path."""

    def at(self, *, model: str, stream: bool) -> tuple[str, str]:
        """Path, and query without `?`, for this model, streamed or not."""
        ...


class Ask(msgspec.Struct, frozen=True):
    """A parsed request body, as far as the relay needs it.

    fields: the top-level JSON members, values as the client's own bytes: what is not edited is
    forwarded as it came.
    """

    model: str
    stream: bool = False
    is_charged: bool = True
    """False for questions that nobody pays for, such as token counts."""
    has_streamed_form: bool = True
    """False where the protocol answers whole only (token counts, embeddings): `force_stream` leaves it be."""
    include_usage: bool = False
    """The client itself asked for a usage chunk in its stream."""
    fields: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    message_count: int = 0
    tool_count: int = 0
    body: bytes = b""
    """The client's bytes as they came. Only for dialects that forward them so."""
    is_form: bool = False
    """`body` is a multipart form; `fields` are the few of its fields that were read, as JSON."""
    model_span: tuple[int, int] | None = None
    """Where in such a `body` the model's name stands."""
    prompt_bytes: int | None = None
    """How much of a form is prompt: its texts, and each file flat. None = no form, see `RelayRequest`."""
    is_raw: bool = False
    """Whatever comes passes as it came: a stream, JSON or sound. Stream policies do not apply."""
    known_usage: TokenUsage | None = None
    """What the request alone tells of its usage: characters to be spoken."""
    stream_form: StreamForm = EVENT_STREAM
    target: Target | None = None
    """None = the client's own path and query."""


@runtime_checkable
class ReadsForms(Protocol):
    """A dialect that also takes requests as multipart forms."""

    def parse_form(self, body: bytes, content_type: str) -> Ask:
        """Raises `Refusal` (400) naming the field; time linear in the body's size."""
        ...


class ReadsTargets(ABC):
    """A dialect in which the path and the query are part of what is asked.

    To be inherited from and not a protocol: each request is put to it, and `isinstance` takes microseconds
    for a protocol.
    """

    @abstractmethod
    def parse_call(self, path: str, query: str, body: bytes) -> Ask:
        """Instead of `parse_request`. path: normalised, percent-encoding kept; query: without credentials.

        Raises `Refusal` (400, 404) naming the field; bounded time for any input.
        """


class Dialect(Protocol):
    """One wire protocol. Stateless; one instance a process."""

    @property
    def name(self) -> str: ...

    def parse_request(self, body: bytes) -> Ask:
        """Raises `Refusal` (400) naming the field; bounded time for any input."""
        ...

    def build_request(
        self,
        ask: Ask,
        *,
        model: str,
        stream: bool,
        request_usage: bool,
        overrides: Mapping[str, object],
    ) -> bytes:
        """The body for the upstream: only model, stream, stream options and overrides change."""
        ...

    def stream_inspector(self, ask: Ask) -> StreamInspector: ...

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Raises ValueError when the body is not the JSON this dialect answers with."""
        ...

    def aggregator(self, ask: Ask) -> Aggregator: ...

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        """A whole answer as the SSE frames the client asked for, terminal included."""
        ...

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        """An upstream's non-2xx body, any vendor's shape. Never raises."""
        ...

    def error_body(self, refusal: Refusal, request_id: str) -> bytes: ...

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """The SSE frame that tells a client, in-band, that its stream failed."""
        ...
