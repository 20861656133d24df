"""docs/timers.md: what may end an attempt for taking too long, and every bound, from the tables that act."""

from collections.abc import Iterator
from typing import cast

from django.db.models import NOT_PROVIDED
from django.utils import translation

from channels_admin.models import StreamPolicy as StreamPolicyRow
from channels_admin.models.stream_policies import PREAMBLE_HOLD_MAX_MS
from gateway.front import protocol, sending, server
from gateway.reference.markdown import code, number, page, seconds, size, table
from relay.core import stream_state
from relay.core.stream_state import TIMERS, AttemptState, Limits, Phase, TimerRow
from relay.core.types import RelayFlags, StreamPolicy
from relay.upstream import failures, pump
from relay.upstream.readings import common, stream
from relay.upstream.transports import contract as transport

_INTRO = f"""\
What the gateway waits for, how long, and what it does then. All clocks are monotonic. Timers of the
upstream run only while the gateway waits for the upstream: the time that a slow client costs is taken out.

A timer that expires before the commit point is a failed attempt, behind which another channel may be tried
(but not after {code("non_stream_timeout")}); behind it, it is told in-band and ends the stream.
What the end reasons mean: [end-reasons.md](end-reasons.md). What a commit point is:
[stream-runtime.md](stream-runtime.md)."""

_UPSTREAM_NOTE = """\
A limit of 0 switches the timer off, where its setting allows 0. Images, audio and
what is passed through as it is have no event-idle timer and no total."""

_PHASES = {
    Phase.REQUESTING: "Asking",
    Phase.READING_ERROR: "Reading an error's body",
    Phase.PROVING: "Stream: headers came, no valid event yet",
    Phase.STREAMING: "Stream: running",
    Phase.FINISHING: "Stream: every choice has finished",
    Phase.CLOSING: "Stream: the end mark was seen",
    Phase.READING_WHOLE: "Reading a whole answer",
    Phase.READING_RAW: "Passing through a body",
}
_SINCE = {
    "dialling_since": "dial begun",
    "uploading_since": "connected, until the request is sent",
    "sent_at": "request sent",
    "headers_at": "response headers",
    "last_byte_at": "last byte",
    "last_event_at": "last valid event",
    "terminal_at": "end mark",
}
_POLICY, _FLAGS, _LIMITS = StreamPolicy(), RelayFlags(), Limits()
_SETTINGS = {
    "connect_s": f"channel `connect_timeout_seconds`, {seconds(_LIMITS.connect_s)}",
    "header_s": "policy `header_timeout_seconds`, else flag `OUTBOUND_HEADER_TIMEOUT_SECONDS`, "
    f"{seconds(_FLAGS.header_timeout_s)}; images: `OUTBOUND_IMAGE_HEADER_TIMEOUT_SECONDS`, "
    f"{seconds(_FLAGS.image_header_timeout_s)}",
    "whole_s": "channel `non_stream_timeout_seconds`, else flag `NON_STREAM_TIMEOUT_SECONDS`, "
    f"{seconds(_FLAGS.non_stream_timeout_s)}; images: image header timeout + "
    f"{seconds(stream_state.IMAGE_WHOLE_EXTRA_S)}; only where a whole answer is due",
    "first_event_s": f"policy `first_event_timeout_seconds`, {seconds(_POLICY.first_event_timeout_s)}",
    "idle_s": f"policy `idle_timeout_seconds`, {seconds(_POLICY.idle_timeout_s)}; images: "
    f"`image_idle_timeout_seconds`, {seconds(_POLICY.image_idle_timeout_s)}",
    "event_idle_s": f"policy `event_idle_timeout_seconds`, {seconds(_POLICY.event_idle_timeout_s)}",
    "total_s": f"policy `total_timeout_seconds`, {seconds(_POLICY.total_timeout_s)}",
    "first_byte_s": f"fixed, {seconds(_LIMITS.first_byte_s)}",
    "usage_wait_s": f"fixed, {seconds(_LIMITS.usage_wait_s)}",
    "error_body_s": f"fixed, {seconds(_LIMITS.error_body_s)}",
    "eof_wait_s": f"fixed, {seconds(_LIMITS.eof_wait_s)}",
    "upload_s": f"fixed, {seconds(_LIMITS.upload_s)}",
}
_POLICY_INTRO = """\
A model route may name a stream policy, which goes before the channel's. A channel names one, or uses the
default one. Policies are kept in the console or in the file of `manage.py apply`, under these names. The
timers follow what is asked of the *upstream*, whatever the client asked."""

_UNTOLD = frozenset({"id", "version", "name", "is_default"})


def timers_page() -> str:
    return page(
        "Timers and bounds",
        _INTRO,
        "## Upstream",
        table(["While", "From", "Limit and default", "End reason"], _upstream_rows()),
        _UPSTREAM_NOTE,
        "## Client",
        table(["What", "Value", "Then"], _client_rows()),
        "## Bounds",
        table(["What", "Value", "Beyond it"], _bound_rows()),
        "## Stream policies",
        _POLICY_INTRO,
        table(["Field", "Default", "Meaning"], _policy_rows()),
    )


class _Names:
    """Answers with the name of what is asked of it: so a row of `TIMERS` tells which fields it reads."""

    def __getattr__(self, name: str) -> str:
        return name


def _upstream_rows() -> Iterator[list[str]]:
    for phase, rows in TIMERS.items():
        for row in rows:
            since, limit = _fields_of(row)
            yield [_PHASES[phase], _SINCE[since], _SETTINGS[limit], code(row.reason)]


def _fields_of(row: TimerRow) -> tuple[str, str]:
    names = _Names()
    return str(row.since(cast("AttemptState", names))), str(row.limit(cast("Limits", names)))


def _client_rows() -> Iterator[list[str]]:
    state = stream_state
    yield ["Request head", seconds(protocol.HEAD_TIMEOUT_S), "408"]
    yield ["Request body, piece to piece", seconds(protocol.BODY_IDLE_TIMEOUT_S), "the connection is reset"]
    total = seconds(protocol.BODY_TOTAL_TIMEOUT_S)
    yield ["Request body, from the head to its last byte", total, "the connection is reset"]
    yield ["Idle connection", seconds(server.KEEP_ALIVE_TIMEOUT_S), "it is closed"]
    yield ["Nothing written to a stream", seconds(state.KEEPALIVE_S), "`: keepalive` is written"]
    yield [
        "A write of a stream or a relayed answer is not taken",
        seconds(state.WRITE_TIMEOUT_S),
        "`client_too_slow`; the connection is reset",
    ]
    yield [
        "A write of any other answer is not taken",
        seconds(sending.WRITE_DEADLINE_S),
        "the connection is reset",
    ]
    yield [
        "Early commit, unset, where the policy forces whole answers",
        f"{seconds(state.EARLY_COMMIT_FORCED_S)} from the request's receipt",
        "200 and keepalives; the outcome follows in-band",
    ]
    yield [
        "Drain: policy `disconnect_policy` is `drain` and the client has left",
        f"{seconds(state.DRAIN_S)}, {size(state.DRAIN_BYTES)}, {state.DRAINS_PER_PROCESS} a process",
        "`client_disconnected`; the upstream is closed",
    ]
    yield ["Closing an upstream connection", seconds(transport.CLOSE_TIMEOUT_S), "it is dropped"]


def _bound_rows() -> Iterator[list[str]]:
    yield ["Request line and headers", size(protocol.HEAD_LIMIT_BYTES), "431"]
    yield ["Request body", "`MAX_BODY_BYTES`", "413"]
    yield ["One event of a stream", "`SSE_MAX_EVENT_BYTES`", "`response_too_large`"]
    yield ["A whole or aggregated answer", size(common.MAX_WHOLE_BYTES), "`response_too_large`"]
    yield ["An upstream's error body", size(failures.ERROR_BODY_BYTES), "the rest is not read"]
    yield [
        "Waiting for a slow client, a stream",
        f"{pump.MAX_ITEMS} pieces or {size(pump.MAX_BYTES)}",
        "the gateway stops reading the upstream",
    ]
    yield [
        "Preamble held back",
        f"{stream.HELD_EVENTS} events or {size(stream.HELD_BYTES)}",
        "it is released",
    ]
    yield ["`preamble_hold_ms`", number(PREAMBLE_HOLD_MAX_MS), "is refused"]


def _policy_rows() -> Iterator[list[str]]:
    with translation.override("en"):
        for field in StreamPolicyRow._meta.concrete_fields:  # noqa: SLF001  Django's documented API
            if field.name in _UNTOLD:
                continue
            words = str(field.help_text) or f"{str(field.verbose_name).capitalize()}."
            if field.choices:
                words += " " + ", ".join(code(value or '""') for value, _label in field.choices) + "."
            yield [code(field.name), _default(field.default), words]


def _default(value: object) -> str:
    if value is None or value is NOT_PROVIDED:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return number(value) if isinstance(value, int | float) else code(value or '""')
