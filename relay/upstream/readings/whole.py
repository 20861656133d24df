"""Whole answers: as asked, made of a stream (`force_stream`), or sent as one (`force_non_stream`)."""

from relay.core.dialects.base import AggregationFailed, Aggregator, EventKind
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.sse import Event, EventStreamParser
from relay.core.stream_state import Signal
from relay.upstream.answer import Head, stream_head
from relay.upstream.attempt import Attempt
from relay.upstream.pump import WRITE_BYTES
from relay.upstream.readings.common import (
    EVENT_STREAM,
    MAX_WHOLE_BYTES,
    broken_tool_call,
    is_json,
    judge_body,
    read_body,
)
from relay.upstream.readings.events import EventReader, demand_event_stream, note_content_type

_JSON = (b"content-type", b"application/json")
_OWN_HEADERS = frozenset({b"content-type", b"content-length", b"content-encoding"})


async def read_whole(attempt: Attempt) -> EndReason:
    """A whole answer for a whole answer; an upstream that streams all the same is aggregated."""
    if attempt.headers.media_type == EVENT_STREAM:
        attempt.state.apply(Signal.STREAM_HEADERS, attempt.clock.now())
        return await _aggregate(attempt)
    body = await _checked_body(attempt)
    _commit_whole(attempt, body)
    return EndReason.COMPLETED


async def read_aggregated(attempt: Attempt) -> EndReason:
    """A stream for a whole answer; an upstream that answers whole all the same is taken as it is."""
    if is_json(attempt.headers.media_type):
        return await read_whole(attempt)
    await demand_event_stream(attempt)
    return await _aggregate(attempt)


async def read_exploded(attempt: Attempt) -> EndReason:
    """A whole answer for a stream."""
    if attempt.headers.media_type == EVENT_STREAM:
        raise AttemptFailed(EndReason.BAD_CONTENT_TYPE, error_class="stream_for_json")
    body = await _checked_body(attempt)
    if attempt.plan.policy.tool_call_guard and attempt.facts.is_tool_call_broken:
        raise broken_tool_call()
    attempt.commit(stream_head(attempt.headers.passed, form=attempt.request.ask.stream_form))
    await _send_as_events(attempt, body)
    return EndReason.COMPLETED


async def _checked_body(attempt: Attempt) -> bytes:
    media = attempt.headers.media_type
    if not is_json(media) and media not in {"", "text/plain"}:
        raise AttemptFailed(EndReason.BAD_CONTENT_TYPE, error_class="content_type")
    attempt.state.apply(Signal.WHOLE_HEADERS, attempt.clock.now())
    body = await read_body(attempt)
    judge_body(attempt, body)
    return body


def _commit_whole(attempt: Attempt, body: bytes) -> None:
    passed = tuple(p for p in attempt.headers.passed if p[0] not in _OWN_HEADERS)
    attempt.commit(Head(200, (_JSON, *passed), body=body))


async def _aggregate(attempt: Attempt) -> EndReason:
    reader = EventReader(attempt)
    aggregator = attempt.request.dialect.aggregator(attempt.request.ask)
    note_content_type(attempt)

    def end(reason: EndReason) -> EndReason:
        try:
            body = aggregator.whole()
        except AggregationFailed as error:
            raise AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class=str(error)) from error
        attempt.is_processed = True
        _commit_whole(attempt, body)
        return reason

    attempt.end_quietly = lambda: end(EndReason.COMPLETED_WITHOUT_TERMINAL)
    while data := await attempt.read():
        if attempt.bytes_in > MAX_WHOLE_BYTES:
            raise AttemptFailed(EndReason.RESPONSE_TOO_LARGE, error_class="aggregate")
        await _add(reader.feed(data), reader, aggregator)
        if reader.facts.terminal_seen:
            break
    else:
        await _add(reader.close(), reader, aggregator)
    if not attempt.events:
        raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="no_event")
    if reader.facts.is_whole_at_end:
        reader.facts.terminal_seen = True
        return end(EndReason.COMPLETED)
    if reader.facts.every_choice_finished:
        return end(EndReason.COMPLETED_WITHOUT_TERMINAL)
    raise AttemptFailed(EndReason.INCOMPLETE, error_class="eof")


async def _add(events: list[Event], reader: EventReader, aggregator: Aggregator) -> None:
    attempt = reader.attempt
    for event in events:
        kind, out = reader.judge_one(event)
        if kind is EventKind.CONTENT or kind is EventKind.PREAMBLE:
            if attempt.events == 1:
                await attempt.turn()
                attempt.claim()
            aggregator.add(_repaired(event, out))
        elif kind is EventKind.INVALID:  # a whole answer with a hole in it would be a wrong answer
            raise AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="not_json")


def _repaired(event: Event, out: bytes) -> Event:
    """The event as a client would get it; a withheld one (usage) as it came."""
    if not out or out is event.raw:
        return event
    return EventStreamParser().feed(out)[0]


async def _send_as_events(attempt: Attempt, body: bytes) -> None:
    batch: list[bytes] = []
    size = 0
    for frame in attempt.request.dialect.whole_to_events(body, attempt.request.ask):
        batch.append(frame)
        size += len(frame)
        if size >= WRITE_BYTES:
            await attempt.answer.pump.put(b"".join(batch))
            batch, size = [], 0
    await attempt.answer.pump.put(b"".join(batch))
