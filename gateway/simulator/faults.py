"""An error as the upstream means it, before a dialect gives it a shape.

Must not import: Django, aiohttp.
"""

from dataclasses import dataclass

_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
_CODES = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Status, message, and OpenAI's `type`, `code` and `param`; the other dialects go by the status."""

    status: int
    message: str
    type: str
    code: str | None = None
    param: str | None = None


def fault_for(status: int, message: str = "", *, code: str | None = None, param: str | None = None) -> Fault:
    """A fault with the type and code that OpenAI gives with this status."""
    return Fault(
        status=status,
        message=message or f"The simulator answers with status {status}, as the model name asks.",
        type=_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error"),
        code=code or _CODES.get(status),
        param=param,
    )
