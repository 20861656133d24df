"""What a client is told when not an upstream but one of us ended its request."""

from relay.core.end_reasons import EndReason
from relay.core.errors import Refusal


def refusal_for_stop(reason: EndReason) -> Refusal:
    """A new Refusal each time: exceptions collect tracebacks."""
    match reason:
        case EndReason.BALANCE_EXHAUSTED:
            kind = "insufficient_quota"
            return Refusal(402, "The balance is used up.", kind=kind, code=kind)
        case EndReason.REVOKED:
            kind = "authentication_error"
            return Refusal(401, "The API key was revoked.", kind=kind, code="api_key_revoked")
        case EndReason.STOPPED_BY_OPERATOR:
            return Refusal(503, "An operator stopped the request.", kind="api_error", code=reason.value)
        case EndReason.GATEWAY_SHUTDOWN:
            message = "The gateway is shutting down."
            return Refusal(503, message, kind="api_error", code=reason.value, retry_after_s=1)
        case _:
            return Refusal(500, "The gateway failed.", kind="api_error", code="gateway_error")
