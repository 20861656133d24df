"""One try against one channel and key: request, headers, proof, and reading to the end.

`Attempt.run` returns how the attempt ended after its commit point and raises `AttemptFailed` before it.
It is interrupted from outside by cancelling its task; `expired` then tells that a timer did it.
"""

import contextlib
from collections.abc import Callable
from typing import Protocol

import httpx

from relay.core.dialects.base import StreamFacts
from relay.core.end_reasons import SUCCESSFUL, EndReason
from relay.core.errors import AttemptFailed
from relay.core.headers import client_headers, upstream_request_id
from relay.core.outcomes import AttemptOutcome
from relay.core.request import RelayRequest
from relay.core.stream_state import AttemptState, Phase, Signal
from relay.core.usage import TokenUsage
from relay.upstream.answer import Answer
from relay.upstream.deadline import Deadline
from relay.upstream.failures import failure_of
from relay.upstream.plan import AttemptPlan, Mode, upstream_host, upstream_request
from relay.upstream.ports import Clock
from relay.upstream.transport import (
    EXT_CONNECT_TIMEOUT_S,
    EXT_FRESH_CONNECTION,
    EXT_PROXY,
    EXT_TRACE,
    BodyStream,
    DialTrace,
    RelayTransport,
)

ERROR_BODY_BYTES = 64 * 1024
MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Cap of a whole or aggregated answer: base64 images are big."""
_UNSENT_POLL_S = 0.25
"""While the request is not sent, the header timer cannot know its start: it looks again so often."""


class Reading(Protocol):
    """One way to read a 2xx answer; see `relay.upstream.reading`."""

    async def __call__(self, attempt: "Attempt", response: httpx.Response) -> EndReason: ...


class Attempt:
    """Shared state of one try. The readings write `facts`, `events` and the two conclusions."""

    __slots__ = (
        "_body", "_deadline", "_ended_at", "_first_byte_at", "_first_event_at", "_headers_at",
        "_interrupt", "_started_at", "_started_wall", "_trace", "_transport",
        "_upstream_request_id", "answer", "bytes_in", "clock", "drain_bytes_left", "end_quietly",
        "events", "expired", "facts", "finish_reasons", "is_committed", "is_detached", "is_open",
        "is_processed", "max_event_bytes", "plan", "request", "response_status", "state",
        "whole_usage",
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
        self.response_status: int | None = None
        self.whole_usage: TokenUsage | None = None
        self.finish_reasons: tuple[str, ...] = ()
        self._transport = transport
        self._interrupt = interrupt
        self._trace = DialTrace()
        self._deadline = Deadline(clock, self._on_deadline)
        self._body: BodyStream | None = None
        self._started_at = clock.now()
        self._started_wall = clock.wall()
        self._ended_at = self._started_at
        self._headers_at: float | None = None
        self._first_byte_at: float | None = None
        self._first_event_at: float | None = None
        self._upstream_request_id = ""

    async def run(self, reading: Reading) -> EndReason:
        self.is_open = True
        try:
            response = await self._open()
            return await reading(self, response)
        finally:
            self.is_open = False
            self._ended_at = self.clock.now()
            self._deadline.close()
            await self._close()

    # For the readings.

    async def read(self) -> bytes:
        """Everything the upstream has sent meanwhile; b"" at its end. Raises AttemptFailed."""
        assert self._body is not None  # noqa: S101  set by _open
        self._deadline.move(self.state.due()[0])
        try:
            data = await self._body.read_some()
        except httpx.TransportError as error:
            raise failure_of(error) from error
        finally:
            self._deadline.pause()
        if data:
            self._note_bytes(data)
        return data

    def note_valid_event(self) -> None:
        now = self.clock.now()
        if self._first_event_at is None:
            self._first_event_at = now
        self.state.apply(Signal.VALID_EVENT, now)

    def passed_headers(self, response: httpx.Response) -> list[tuple[bytes, bytes]]:
        return client_headers(response.headers.raw)

    def watch(self) -> None:
        """The phase or its limits changed while a read is waiting."""
        self._deadline.move(self.state.due()[0])

    # The wire.

    async def _open(self) -> httpx.Response:
        request = upstream_request(self.request, self.plan)
        request.extensions = {
            EXT_TRACE: self._trace,
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
        self._headers_at = self.clock.now()
        self.response_status = response.status_code
        self._upstream_request_id = upstream_request_id(response.headers.raw)
        if not (200 <= response.status_code < 300 or self._is_not_modified()):
            raise await self._rejection(response)
        return response

    def _is_not_modified(self) -> bool:
        return self.response_status == 304 and self.plan.mode is Mode.RAW

    async def _rejection(self, response: httpx.Response) -> AttemptFailed:
        """Reads the error body, for its message only, at most 64 KiB and 5 s."""
        self.state.apply(Signal.REJECTED, self.clock.now())
        status = response.status_code
        parts: list[bytes] = []
        size = 0
        with contextlib.suppress(AttemptFailed):
            while size < ERROR_BODY_BYTES and (data := await self.read()):
                parts.append(data)
                size += len(data)
        error = self.request.dialect.parse_error(b"".join(parts)[:ERROR_BODY_BYTES], status)
        return AttemptFailed(
            EndReason.UPSTREAM_REJECTED,
            status=status,
            error_class=error.code or error.kind or f"status_{status}",
            message=error.message,
            code=error.code or None,
            kind=error.kind or None,
            param=error.param,
            retry_after=response.headers.get("retry-after"),
        )

    async def _close(self) -> None:
        if self._body is not None:
            with contextlib.suppress(httpx.TransportError):
                await self._body.aclose()

    def _on_deadline(self) -> None:
        self._copy_trace()
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
        self.state.connected_at = self._trace.connected_at
        self.state.sent_at = self._trace.sent_at

    def _note_bytes(self, data: bytes) -> None:
        now = self.clock.now()
        if self._first_byte_at is None:
            self._first_byte_at = now
        self.state.last_byte_at = now
        self.bytes_in += len(data)
        if self.drain_bytes_left is not None:
            self.drain_bytes_left -= len(data)
            if self.drain_bytes_left < 0:
                self.state.read_until = now

    # The record.

    @property
    def usage(self) -> TokenUsage | None:
        return self.facts.usage or self.whole_usage

    @property
    def first_event_at(self) -> float | None:
        return self._first_event_at

    def outcome(
        self,
        end_reason: EndReason,
        *,
        error_class: str,
        what_next: str,
        keepalives: int,
        client_consumed: bool,
    ) -> AttemptOutcome:
        facts = self.facts
        usage = self.usage
        last_event_at = self.state.last_event_at
        finish_reasons = tuple(facts.finish_reasons[index] for index in sorted(facts.finish_reasons))
        return AttemptOutcome(
            number=self.plan.number,
            channel_id=self.plan.channel.id,
            channel_name=self.plan.channel.name,
            upstream_key_id=self.plan.key.id,
            upstream_host=upstream_host(self.plan.channel.base_url),
            model_sent=self.plan.model_sent,
            stream_asked=self.request.ask.stream,
            stream_sent=self.plan.mode.asks_for_stream
            or (self.plan.mode is Mode.RAW and self.request.ask.stream),
            end_reason=end_reason,
            decision=f"{self.plan.decision}; {what_next}" if what_next else self.plan.decision,
            error_class=error_class,
            status=self.response_status,
            upstream_request_id=self._upstream_request_id,
            started_at=self._started_wall,
            connect_ms=self._ms(self._trace.connected_at),
            header_ms=self._ms(self._headers_at),
            first_byte_ms=self._ms(self._first_byte_at),
            first_event_ms=self._ms(self._first_event_at),
            last_event_at=None
            if last_event_at is None
            else self._started_wall + last_event_at - self._started_at,
            duration_ms=self._ms(self._ended_at) or 0.0,
            events=self.events,
            bytes=self.bytes_in,
            keepalives=keepalives if self.is_committed else 0,
            finish_reasons=finish_reasons or self.finish_reasons,
            soft_error_count=facts.soft_error_count,
            soft_errors=tuple(facts.soft_errors),
            terminal_seen=facts.terminal_seen,
            committed=self.is_committed,
            upstream_connected=self._trace.connected_at is not None,
            stream_processed=self.is_processed,
            stream_finished=end_reason in SUCCESSFUL,
            usage_complete=usage is not None and usage.is_complete,
            client_consumed=client_consumed and self.is_committed,
            usage=usage,
        )

    def _ms(self, at: float | None) -> float | None:
        return None if at is None else round((at - self._started_at) * 1000, 3)


def _cannot_end_quietly() -> EndReason:
    raise AttemptFailed(EndReason.GATEWAY_ERROR, error_class="no_quiet_end")
