"""The one border where what came over the wire becomes the failure of an attempt: an error of the transport,
or an answer with an error status.
"""

import contextlib
from typing import TYPE_CHECKING

import httpx

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.stream_state import Signal

if TYPE_CHECKING:
    from relay.upstream.attempt import Attempt

ERROR_BODY_BYTES = 64 * 1024


def failure_of(error: httpx.TransportError) -> AttemptFailed:
    """What an httpx error means for the attempt. The error's own text never leaves this function."""
    error_class = type(error).__name__
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.WriteError() | httpx.LocalProtocolError():
            # The transports raise these only while nothing of the request has left us.
            return AttemptFailed(EndReason.CONNECT_FAILED, error_class=error_class)
        case httpx.RemoteProtocolError() | httpx.DecodingError():
            return AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class=error_class)
        case httpx.ReadTimeout():
            return AttemptFailed(EndReason.IDLE_TIMEOUT, error_class=error_class)
        case _:
            return AttemptFailed(EndReason.UPSTREAM_RESET, error_class=error_class)


async def read_rejection(attempt: "Attempt") -> AttemptFailed:
    """Reads the body of an answer with an error status, for its message only, at most 64 KiB and 5 s."""
    attempt.state.apply(Signal.REJECTED, attempt.clock.now())
    status, retry_after = attempt.response_status, attempt.headers.retry_after
    attempt.rejection = AttemptFailed(
        EndReason.UPSTREAM_REJECTED,
        status=status,
        error_class=f"status_{status}",
        retry_after=retry_after,
    )
    parts: list[bytes] = []
    size = 0
    with contextlib.suppress(AttemptFailed):
        while size < ERROR_BODY_BYTES and (data := await attempt.read()):
            parts.append(data)
            size += len(data)
    error = attempt.request.dialect.parse_error(b"".join(parts)[:ERROR_BODY_BYTES], status)
    return AttemptFailed(
        EndReason.UPSTREAM_REJECTED,
        status=error.status or status,  # a dialect may know better than the status line
        error_class=error.code or error.kind or f"status_{status}",
        message=error.message,
        code=error.code or None,
        kind=error.kind or None,
        param=error.param,
        retry_after=retry_after,
    )
