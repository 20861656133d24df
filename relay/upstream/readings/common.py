"""What several readings share: media types, bounded bodies, and errors that came as data."""

from relay.core.dialects.base import TOOL_CALL_INVALID, UpstreamError
from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.upstream.attempt import Attempt

EVENT_STREAM = "text/event-stream"
MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Cap of a whole or aggregated answer: base64 images are big."""


def is_json(media: str) -> bool:
    return media.endswith(("/json", "+json"))


def error_as_data(error: UpstreamError | None) -> AttemptFailed:
    """The upstream said 200 and then that it failed."""
    if error is None:
        return AttemptFailed(EndReason.UPSTREAM_ERROR_EVENT, error_class="error")
    return AttemptFailed(
        EndReason.UPSTREAM_ERROR_EVENT,
        status=error.status,
        error_class=error.code or error.kind or "error",
        message=error.message,
        code=error.code or None,
        kind=error.kind or None,
        param=error.param,
    )


def broken_tool_call() -> AttemptFailed:
    """A tool call that is not whole or not valid, where the policy keeps such from the client."""
    return AttemptFailed(
        EndReason.UPSTREAM_PROTOCOL_ERROR,
        error_class=TOOL_CALL_INVALID,
        message="The upstream's answer holds a tool call that is not valid.",
        code=TOOL_CALL_INVALID,
    )


async def read_body(attempt: Attempt) -> bytes:
    """The whole body. AttemptFailed: `response_too_large` over the cap, `empty_response` without content."""
    parts: list[bytes] = []
    while data := await attempt.read():
        parts.append(data)
        if attempt.bytes_in > MAX_WHOLE_BYTES:
            raise AttemptFailed(EndReason.RESPONSE_TOO_LARGE, error_class="body")
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if not body.strip():
        raise AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="empty_body")
    return body


def judge_body(attempt: Attempt, body: bytes) -> None:
    """Notes what a whole body says. AttemptFailed when the dialect cannot read it, or it is an error."""
    try:
        answer = attempt.request.dialect.inspect_whole(body)
    except ValueError as error:
        raise AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="not_json") from error
    if answer.error is not None:
        raise error_as_data(answer.error)
    attempt.whole_usage = answer.usage
    attempt.finish_reasons = answer.finish_reasons
    attempt.facts.model = answer.model
    attempt.facts.answer_id = answer.answer_id
    for error_class in answer.soft_errors:
        attempt.facts.add_soft_error(error_class, 0)
    attempt.is_processed = True
