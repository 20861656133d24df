"""Pass-through: status, headers and bytes as they come; an event stream still gets keepalives.

Where the dialect is known, a JSON answer is read whole first: it may be an error, and it tells the usage.
"""

from relay.core.dialects.opaque import OPAQUE
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.stream_state import Signal
from relay.upstream.answer import Head
from relay.upstream.attempt import Attempt
from relay.upstream.readings.common import EVENT_STREAM, is_json, judge_body, read_body
from relay.upstream.readings.stream import read_stream


async def read_raw(attempt: Attempt) -> EndReason:
    """Commits at the first body byte, or at the headers where no body can come."""
    if attempt.headers.media_type == EVENT_STREAM and attempt.request.method != "HEAD":
        return await read_stream(attempt)
    attempt.state.apply(Signal.RAW_HEADERS, attempt.clock.now())
    if is_json(attempt.headers.media_type) and attempt.request.dialect is not OPAQUE:
        return await _read_judged(attempt)
    head = Head(attempt.response_status, tuple(_headers(attempt)))
    may_be_empty = _may_be_empty(attempt)
    if may_be_empty:
        attempt.commit(head)
    pump = attempt.answer.pump
    while data := await attempt.read():
        if not attempt.is_committed:
            attempt.commit(head)
        waited_s = await pump.put(data)
        if waited_s:
            attempt.state.shift(waited_s)
    if not attempt.is_committed:
        raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="empty_body")
    attempt.is_processed = True
    attempt.facts.terminal_seen = True
    return EndReason.COMPLETED


async def _read_judged(attempt: Attempt) -> EndReason:
    """The client gets the upstream's own bytes."""
    body = await read_body(attempt)
    judge_body(attempt, body)
    attempt.commit(Head(attempt.response_status, tuple(attempt.headers.passed), body=body))
    return EndReason.COMPLETED


def _headers(attempt: Attempt) -> list[tuple[bytes, bytes]]:
    headers = list(attempt.headers.passed)
    length = attempt.headers.content_length
    if length is not None:  # the transport takes it out when it decodes
        headers.append((b"content-length", length))
    return headers


def _may_be_empty(attempt: Attempt) -> bool:
    return (
        attempt.request.method == "HEAD"
        or attempt.response_status in {204, 205, 304}
        or attempt.headers.content_length == b"0"
    )
