"""Errors as the client's dialect writes them: a `Refusal`, or any exception that reached the edge.

The dialect is decided by the path, so that even a request that never found its view is answered in the
shape its SDK can read. An unexpected exception tells the client nothing and the log its class and
where it was raised: messages may quote prompts or secrets.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestAborted,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import Error as AnyDatabaseError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from billing.db_errors import TRANSIENT_ERRORS
from relay.core.dialects.anthropic.errors import error_body as anthropic_error_body
from relay.core.dialects.gemini import VERBS
from relay.core.dialects.gemini.errors import error_body as gemini_error_body
from relay.core.dialects.openai_chat.errors import error_body as openai_error_body
from relay.core.errors import Refusal, described

_logger = logging.getLogger(__name__)

ErrorBody = Callable[[Refusal, str], bytes]
"""(refusal, request id) → JSON body."""

DIALECT_BY_PREFIX: list[tuple[str, ErrorBody]] = [
    ("/v1/messages", anthropic_error_body),
    ("/v1beta", gemini_error_body),
]
"""Longest prefix first; what is not named here speaks OpenAI."""

_MODELS = "/v1/models"
_GEMINI_CALL = re.compile(rf"{_MODELS}/.+:[a-z]+[A-Z][A-Za-z]+|{_MODELS}/.+:(?:{'|'.join(VERBS)})")
"""Known by the verb, which is in camel case; a model's tag hardly is."""

_KIND_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}

_DATABASE_LOG_PAUSE_S = 30.0
_database_errors_logged: dict[str, float] = {}
"""Class name → when it was logged last, on the monotonic clock."""

_BAD_INPUT = (BadRequest, SuspiciousOperation, MultiPartParserError, UnreadablePostError)


def error_body(path: str, *, is_anthropics: bool = False, is_googles: bool = False) -> ErrorBody:
    """is_anthropics, is_googles: sent by one of their SDKs, which list models where OpenAI's do."""
    if path.startswith(_MODELS):
        if is_anthropics:
            return anthropic_error_body
        if is_googles or _GEMINI_CALL.fullmatch(path):
            return gemini_error_body
    for prefix, body in DIALECT_BY_PREFIX:
        if path.startswith(prefix):
            return body
    return openai_error_body


def render(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """The refusal as a whole answer. `request.request_id` is named in it where there is one."""
    request_id: str = getattr(request, "request_id", "")
    is_anthropics = "anthropic-version" in request.headers
    is_googles = "x-goog-api-client" in request.headers or "x-goog-api-key" in request.headers
    write = error_body(request.path_info, is_anthropics=is_anthropics, is_googles=is_googles)
    body = write(refusal, request_id)
    response = HttpResponse(body, status=refusal.status, content_type="application/json")
    if refusal.retry_after_s is not None:
        response["Retry-After"] = str(refusal.retry_after_s)
    for name, value in refusal.headers:
        response[name] = value
    return response


def render_exception(request: HttpRequest, error: Exception) -> HttpResponse:
    """Any exception as an answer; what nobody foresaw is logged and becomes a 500 without details."""
    refusal = foreseen(request, error)
    if isinstance(error, AnyDatabaseError):
        _log_database_error(error)
    if refusal is None:
        log_unexpected(error, getattr(request, "request_id", ""))
        refusal = Refusal(
            500, "The gateway met an internal error.", kind="server_error", code="internal_error"
        )
    return render(request, refusal)


def render_not_allowed(request: HttpRequest, allowed: Iterable[str]) -> HttpResponse:
    """405 with `Allow`. HEAD goes wherever GET does."""
    methods = {method.strip().upper() for method in allowed if method.strip()}
    if "GET" in methods:
        methods.add("HEAD")
    response = render(
        request,
        Refusal(405, f"{request.method} is not allowed on this path.", code="method_not_allowed"),
    )
    response["Allow"] = ", ".join(sorted(methods))
    return response


def foreseen(request: HttpRequest, error: Exception) -> Refusal | None:
    """What an exception means to the client; None for one that is our own fault."""
    refusal: Refusal | None = None
    match error:
        case Refusal():
            refusal = error
        case Http404():
            refusal = Refusal(404, _unknown_url(request), code="unknown_url")
        case PermissionDenied():
            refusal = _from_status(403, "Forbidden.")
        case RequestDataTooBig():
            refusal = Refusal(413, "The request body is too large.", code="request_too_large")
        case HttpError():
            refusal = _from_status(error.status_code, error.message)
        case ValidationError():
            refusal = _from_validation(error)
        case AnyDatabaseError():
            refusal = Refusal(
                503,
                "The database does not answer right now. Try again.",
                kind="api_error",
                code="database_unavailable",
                retry_after_s=1,
            )
        case _ if isinstance(error, _BAD_INPUT):
            refusal = Refusal(400, "The request could not be read.", code="bad_request")
    return refusal


def install(api: NinjaAPI) -> None:
    """Let ninja answer its own errors in the dialect instead of its `{"detail": …}`."""

    def handle(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
        if isinstance(error, RequestAborted):  # the client left while it was sending: nobody to answer
            raise error
        return render_exception(request, error if isinstance(error, Exception) else error())

    for kind in (Exception, Http404, HttpError, ValidationError, Refusal):
        api.add_exception_handler(kind, handle)


def log_unexpected(error: BaseException, request_id: str) -> None:
    """Class and frames, never the message."""
    _logger.error("unexpected error in request %s: %s", request_id or "-", described(error))


def _log_database_error(error: AnyDatabaseError) -> None:
    """One line a class and a while: in an outage each request meets the same."""
    kind, now = type(error).__name__, time.monotonic()
    if now - _database_errors_logged.get(kind, -_DATABASE_LOG_PAUSE_S) >= _DATABASE_LOG_PAUSE_S:
        _database_errors_logged[kind] = now
        # An outage is the same everywhere; for the rest it matters where we asked for what cannot be.
        shown = kind if isinstance(error, TRANSIENT_ERRORS) else described(error)
        _logger.error("requests are refused: the database answers with %s", shown)


def _unknown_url(request: HttpRequest) -> str:
    path = request.path_info
    shown = path if len(path) <= 200 else path[:200] + "…"
    return f"Unknown request URL: {request.method} {shown}"


def _from_status(status: int, message: str) -> Refusal:
    kind = "server_error" if status >= 500 else _KIND_BY_STATUS.get(status, "invalid_request_error")
    return Refusal(status, message, kind=kind)


def _from_validation(error: ValidationError) -> Refusal:
    """The first complaint, with the field's path: `body.name` → param `name`."""
    first = error.errors[0] if error.errors else {}
    place = ".".join(str(part) for part in first.get("loc", ())[1:])
    message = str(first.get("msg", "The request is not valid."))
    return Refusal(
        400, f"{place}: {message}" if place else message, code="invalid_value", param=place or None
    )
