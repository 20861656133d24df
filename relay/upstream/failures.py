"""The one border where transport errors become failures of an attempt."""

import httpx

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed


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
