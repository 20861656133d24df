"""Pictures: a JSON answer is read whole and looked at before it goes on; anything else passes through.

An answer of 200 without a picture is a failed attempt, which image failover knows as such. The client gets
the upstream's own bytes.
"""

import msgspec

from relay.core.dialects.base import WholeAnswer
from relay.core.dialects.upstream_errors import find_error
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.stream_state import Signal
from relay.upstream.answer import Head
from relay.upstream.attempt import Attempt
from relay.upstream.readings.common import EVENT_STREAM, error_as_data, is_json, read_body
from relay.upstream.readings.raw import read_raw

_MAX_TOLD_BYTES = 64 * 1024
"""Longer members are pictures, not errors."""
_FRAMING = frozenset({b"content-length", b"content-encoding"})
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_any = msgspec.json.Decoder().decode


async def read_drawn(attempt: Attempt) -> EndReason:
    media = attempt.headers.media_type
    if attempt.request.method == "HEAD" or not _should_be_json(media):
        return await read_raw(attempt)
    if media.startswith("text/") and media != "text/plain":
        raise AttemptFailed(EndReason.BAD_CONTENT_TYPE, error_class="content_type")
    attempt.state.apply(Signal.WHOLE_HEADERS, attempt.clock.now())
    body = await read_body(attempt)
    answer = _inspected(attempt, body)
    attempt.whole_usage = answer.usage
    attempt.facts.model = answer.model
    for error_class in answer.soft_errors:
        attempt.facts.add_soft_error(error_class, 0)
    attempt.is_processed = True
    headers = tuple(pair for pair in attempt.headers.passed if pair[0] not in _FRAMING)
    attempt.commit(Head(attempt.response_status, headers, body=body))
    return EndReason.COMPLETED


def _should_be_json(media: str) -> bool:
    """Not a stream of events, and not the picture itself."""
    return is_json(media) or media == "" or (media.startswith("text/") and media != EVENT_STREAM)


def _inspected(attempt: Attempt, body: bytes) -> WholeAnswer:
    """Raises AttemptFailed for what is no JSON object, and for an error in its place.

    Only the top level is decoded: the pictures in it are megabytes of base64.
    """
    try:
        members = _read_members(body)
        answer = attempt.request.dialect.inspect_whole(body)
    except (ValueError, RecursionError) as error:
        raise AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="not_json") from error
    told = {name: _read_any(raw) for name, raw in members.items() if len(raw) < _MAX_TOLD_BYTES}
    found = answer.error or find_error(told)
    if found is not None:
        raise error_as_data(found)
    return answer
