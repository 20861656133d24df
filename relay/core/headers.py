"""Which headers and query parameters pass between a client and an upstream.

Two allow-lists: what is not named does not pass. Names come back in lower case. Must not import an HTTP
library.
"""

from collections.abc import Sequence
from urllib.parse import unquote_plus

import msgspec

MAX_REQUEST_ID_CHARACTERS = 128

_ACCOUNT_SELECTORS = frozenset(
    {b"openai-organization", b"openai-project", b"anthropic-organization-id", b"anthropic-workspace-id"}
    | {b"x-goog-user-project"}
)
_UPSTREAM_ALLOWED = frozenset(
    {b"content-type", b"accept", b"user-agent", b"openai-beta", b"range", b"if-range", b"if-none-match"}
)
"""And `anthropic-*` but for what selects an account. No `content-encoding`: a compressed request body is
refused at our door. No `accept-encoding`: the transport asks for `identity` itself.
"""
_CLIENT_ALLOWED = frozenset(
    {b"content-type", b"content-disposition", b"content-encoding", b"content-range", b"content-language"}
    | {b"accept-ranges", b"etag", b"last-modified", b"cache-control", b"retry-after"}
)
_UPSTREAM_REQUEST_ID = (b"x-request-id", b"request-id", b"apim-request-id", b"x-goog-request-id")
_UPSTREAM_REQUEST_IDS = frozenset(_UPSTREAM_REQUEST_ID)

_CREDENTIAL_PARAMETERS = frozenset(
    {"key", "api_key", "api-key", "apikey", "access_token", "token", "auth_token", "authorization"}
)


def upstream_headers(client: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The client's headers that the upstream may see; the channel's credentials are added elsewhere."""
    passed: list[tuple[bytes, bytes]] = []
    connection: list[bytes] = []
    for name, value in client:
        name = name.lower()  # noqa: PLW2901 - the spelling of the client is of no use
        if name in _UPSTREAM_ALLOWED:
            passed.append((name, value))
        elif name == b"connection":
            connection.append(value)
        elif name[:10] == b"anthropic-" and name not in _ACCOUNT_SELECTORS:
            passed.append((name, value))
    return _without_named(passed, connection) if connection else passed


_READ = frozenset({b"content-type", b"content-length", b"retry-after"})


class ResponseHeaders(msgspec.Struct, frozen=True):
    """An upstream's response headers, read once.

    passed: what the client may see, names in lower case; the upstream's request id as
    `x-upstream-request-id`, no framing, none of the operator's rate limits and account ids. request_id:
    cleaned, "" when there is none. media_type: lower case, without parameters, "" when there is none.
    """

    passed: list[tuple[bytes, bytes]]
    request_id: str
    media_type: str
    content_length: bytes | None
    retry_after: str | None


def response_headers(upstream: Sequence[tuple[bytes, bytes]]) -> ResponseHeaders:
    passed: list[tuple[bytes, bytes]] = []
    connection: list[bytes] = []
    request_ids: list[tuple[bytes, bytes]] = []
    read: dict[bytes, bytes] = {}
    for name, value in upstream:
        name = name.lower()  # noqa: PLW2901 - the spelling of the upstream is of no use
        if name in _READ:
            read.setdefault(name, value)
        if name in _CLIENT_ALLOWED:
            passed.append((name, value))
        elif name == b"connection":
            connection.append(value)
        elif name in _UPSTREAM_REQUEST_IDS:
            request_ids.append((name, value))
        elif (name[:7] == b"openai-" or name[:10] == b"anthropic-") and _is_harmless_vendor_header(name):
            passed.append((name, value))
    request_id = upstream_request_id(request_ids) if request_ids else ""
    if request_id:
        passed.append((b"x-upstream-request-id", request_id.encode("ascii")))
    if connection:
        passed = _without_named(passed, connection)
    media_type = read.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    retry_after = read.get(b"retry-after")
    return ResponseHeaders(
        passed=passed,
        request_id=request_id,
        media_type=media_type,
        content_length=read.get(b"content-length"),
        retry_after=None if retry_after is None else retry_after.decode("latin-1"),
    )


def upstream_request_id(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """How the upstream names this request, cleaned and bounded; "" when it does not say."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        name = name.lower()  # noqa: PLW2901 - the spelling of the upstream is of no use
        if name in _UPSTREAM_REQUEST_IDS:
            found.setdefault(name, clean_client_request_id(value.decode("latin-1")))
    return next(filter(None, map(found.get, _UPSTREAM_REQUEST_ID)), "") if found else ""


def strip_credentials(query: str) -> str:
    """The query without credential parameters; the rest stays byte for byte and in order."""
    if not query:
        return query
    return "&".join(part for part in query.split("&") if not _is_credential_parameter(part))


def credential(headers: Sequence[tuple[bytes, bytes]], query: str) -> str | None:
    """The API key a client sent, from the first place that holds one.

    In order: `Authorization: Bearer`, `x-api-key`, `x-goog-api-key`, `?key=`, `api-key`.
    """
    bearer = x_api_key = goog = azure = ""
    for name, value in headers:
        name = name.lower()  # noqa: PLW2901 - ASGI has it in lower case already
        if name == b"authorization":
            bearer = bearer or _bearer(value)
        elif name == b"x-api-key":
            x_api_key = x_api_key or _text(value)
        elif name == b"x-goog-api-key":
            goog = goog or _text(value)
        elif name == b"api-key":
            azure = azure or _text(value)
    return bearer or x_api_key or goog or _key_parameter(query) or azure or None


def clean_client_request_id(value: str) -> str:
    """A request id from outside, fit for records: printable ASCII without spaces, at most 128 characters."""
    head = value[:MAX_REQUEST_ID_CHARACTERS]
    if head.isascii() and head.isprintable() and " " not in head:
        return head
    return "".join(character for character in head if "!" <= character <= "~")


def _is_harmless_vendor_header(name: bytes) -> bool:
    """Of `openai-*` and `anthropic-*`: not account ids, not the rate limits of the operator's account."""
    return (
        name not in _ACCOUNT_SELECTORS
        and b"ratelimit" not in name
        and not name.endswith((b"-organization", b"-organization-id"))
    )


def _without_named(headers: list[tuple[bytes, bytes]], connection: list[bytes]) -> list[tuple[bytes, bytes]]:
    """RFC 9110, section 7.6.1: what `Connection` names belongs to that connection alone."""
    if connection in ([b"keep-alive"], [b"close"]):
        return headers
    named = {name.strip().lower() for value in connection for name in value.split(b",")}
    return [header for header in headers if header[0] not in named]


def _is_credential_parameter(part: str) -> bool:
    name = part.partition("=")[0]
    if "%" in name or "+" in name:
        name = unquote_plus(name)
    return name.strip().lower() in _CREDENTIAL_PARAMETERS


def _bearer(value: bytes) -> str:
    scheme, _, token = value.strip().partition(b" ")
    return _text(token) if scheme.lower() == b"bearer" else ""


def _text(value: bytes) -> str:
    return value.strip().decode("latin-1")


def _key_parameter(query: str) -> str:
    if "key=" not in query:
        return ""
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name == "key" and value:
            return unquote_plus(value)
    return ""
