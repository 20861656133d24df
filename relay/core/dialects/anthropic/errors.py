"""Errors as Anthropic's clients expect them: `{"type": "error", "error": {type, message}, "request_id"}`.

Source: https://platform.claude.com/docs/en/api/errors. The gateway's own code goes where the API has one,
`error.details.error_code`. Must not import the rest of the dialect.
"""

import msgspec

from relay.core.dialects.base import UpstreamError
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal
from relay.core.sse import encode_event

_TYPE_BY_STATUS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OWN_TYPES = frozenset(_TYPE_BY_STATUS.values())
"""Types that say more than a status; `invalid_request_error` and `api_error` are for all the rest."""

_NO_CREDIT = "credit balance is too low"
"""Anthropic says 400 when the operator's account is empty; to us that is 402, a matter of the key."""


def error_body(refusal: Refusal, request_id: str) -> bytes:
    error: dict[str, object] = {"type": _type(refusal), "message": _clean(refusal.message)}
    if refusal.code:
        error["details"] = {"error_code": _clean(refusal.code)}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


def error_event(refusal: Refusal, request_id: str) -> bytes:
    return encode_event(error_body(refusal, request_id), "error")


def parse_error(body: bytes, status: int) -> UpstreamError:
    """A non-2xx body, any vendor's shape. Never raises."""
    error = parse_error_body(body, status)
    if status == 400 and _NO_CREDIT in error.message:
        return UpstreamError(error.message, kind="billing_error", code=error.code, status=402)
    return error


def _type(refusal: Refusal) -> str:
    if refusal.kind in _OWN_TYPES:
        return refusal.kind
    by_status = _TYPE_BY_STATUS.get(refusal.status)
    if by_status is not None:
        return by_status
    return "invalid_request_error" if refusal.status < 500 else "api_error"


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which an upstream's text may hold."""
    return text.encode("utf-8", "replace").decode()
