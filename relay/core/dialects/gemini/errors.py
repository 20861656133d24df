"""Errors as Google's clients expect them: `{"error": {code, message, status, details}}`.

`error` comes first in the body: the Python SDK looks for it there in a stream. What Google's shape has no
member for stands in the details that its APIs have for it: our code as an ErrorInfo, the field as a
BadRequest, the request id as a RequestInfo. Source: https://google.aip.dev/193. Must not import the rest of
the dialect.
"""

import msgspec

from relay.core.dialects.base import UpstreamError
from relay.core.dialects.members import items, members, text
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal
from relay.core.sse import encode_event

DOMAIN = "sluice"

_TYPES = "type.googleapis.com/google.rpc."
_STATUS_BY_CODE = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_OWN_STATUSES = frozenset(_STATUS_BY_CODE.values()) | {
    "ALREADY_EXISTS", "DATA_LOSS", "OUT_OF_RANGE", "UNKNOWN",
}  # fmt: skip
"""google.rpc.Code; an upstream's own word says more than a status."""

_KEY_IS_BAD = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})
"""Google says 400 to a key that it does not know (Wei-Shaw/sub2api#1709); to us that is 401, a matter of the
operator's key and not of the request."""
_NOT_FROM_HERE = "User location is not supported"
"""Likewise a 400, and a matter of where the channel is."""


def error_body(refusal: Refusal, request_id: str) -> bytes:
    error: dict[str, object] = {
        "code": refusal.status,
        "message": _clean(refusal.message),
        "status": _status(refusal),
        "details": _details(refusal, request_id),
    }
    return msgspec.json.encode({"error": error})


def error_event(refusal: Refusal, request_id: str) -> bytes:
    return encode_event(error_body(refusal, request_id))


def parse_error(body: bytes, status: int) -> UpstreamError:
    """A non-2xx body, any vendor's shape. code: Google's reason, where there is one. Never raises."""
    error = parse_error_body(body, status)
    reason = _reason(body)
    code = reason or ("" if error.code.isdecimal() else error.code)
    if status == 400 and reason in _KEY_IS_BAD:
        status = 401
    elif status == 400 and _NOT_FROM_HERE in error.message:
        status = 403
    return UpstreamError(error.message, kind=error.kind, code=code, param=error.param, status=status)


def _status(refusal: Refusal) -> str:
    if refusal.kind in _OWN_STATUSES:
        return refusal.kind
    by_code = _STATUS_BY_CODE.get(refusal.status)
    if by_code is not None:
        return by_code
    return "INVALID_ARGUMENT" if refusal.status < 500 else "INTERNAL"


def _details(refusal: Refusal, request_id: str) -> list[dict[str, object]]:
    details: list[dict[str, object]] = []
    if refusal.code:
        details.append({"@type": f"{_TYPES}ErrorInfo", "reason": _clean(refusal.code), "domain": DOMAIN})
    if refusal.param:
        violation = {"field": _clean(refusal.param), "description": _clean(refusal.message)}
        details.append({"@type": f"{_TYPES}BadRequest", "fieldViolations": [violation]})
    if refusal.retry_after_s is not None:
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{refusal.retry_after_s}s"})
    if request_id:
        details.append({"@type": f"{_TYPES}RequestInfo", "requestId": request_id})
    return details


def _reason(body: bytes) -> str:
    """`reason` of the ErrorInfo among the details; "" for none."""
    raw = msgspec.Raw(body)
    listed = items(raw)
    error = members(members(listed[0] if listed else raw).get("error"))
    for detail in items(error.get("details")) or ():
        if reason := text(members(detail).get("reason")):
            return reason[:100]
    return ""


def _clean(words: str) -> str:
    """Without halves of surrogate pairs, which an upstream's text may hold."""
    return words.encode("utf-8", "replace").decode()
