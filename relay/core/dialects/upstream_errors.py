"""Reads the error an upstream sent, whatever its vendor: as a non-2xx body, in a 200, or as an event.

Never raises. The text found is the upstream's own and not yet scrubbed; it is only cut to a sane
length. Must not import a dialect.

Shapes: OpenAI and most others `{"error": {message, type, code, param}}`; Anthropic
`{"type": "error", "error": {type, message}}`; Gemini `{"error": {code, message, status}}`, also in a
list; FastAPI `{"detail": text | [{loc, msg}]}`; vLLM `{"object": "error", message, type, code}`;
Ollama `{"error": text}`; DashScope and others `{code, message}`; MiniMax
`{base_resp: {status_code, status_msg}}`.
"""

import re
from collections.abc import Mapping

import msgspec

from relay.core.dialects.base import UpstreamError
from relay.core.dialects.loose import Unreadable, loose_value

MAX_MESSAGE_CHARS = 1_000
_MAX_WORD_CHARS = 100
_MAX_BODY_BYTES = 1 << 20

_HTML = re.compile(rb"\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)

_NO_TEXT = "The upstream reported an error."
_GOOD_CODES = (None, "", 0, "0", 200, "200")

_decode = msgspec.json.Decoder().decode


def parse_error_body(body: bytes, status: int) -> UpstreamError:
    """A non-2xx body. kind: the vendor's word, else `html`, `text` or `empty`."""
    head = body[:_MAX_BODY_BYTES]
    try:
        value = _decode(head)
    except (ValueError, RecursionError):
        return _from_text(head, status)
    return find_error(value, status) or UpstreamError(
        message=f"The upstream answered with status {status}.", kind="unknown", status=status
    )


def find_error(value: object, status: int | None = None) -> UpstreamError | None:
    """The error in decoded JSON, or None when `value` is not an error object."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return _from_error_member(value, status)
    if value.get("object") == "error" or value.get("type") == "error":
        return _from_members(value, status)
    return None if value.get("choices") else _vendor_error(value, status)


def _from_error_member(value: Mapping[object, object], status: int | None) -> UpstreamError:
    error = value["error"]
    if isinstance(error, dict):
        return _from_members(error, status)
    if isinstance(error, str):
        return _from_members({**value, "message": value.get("message") or error}, status)
    return _from_members(value, status)  # `true`, a number, a list: an error all the same


def _vendor_error(value: Mapping[object, object], status: int | None) -> UpstreamError | None:
    """Shapes that say "error" nowhere: only where there is no answer beside them."""
    if value.get("detail"):
        return UpstreamError(message=_detail_text(value["detail"]), kind="detail", status=status)
    if isinstance(value.get("message"), str) and value.get("code") not in _GOOD_CODES:
        return _from_members(value, status)
    return _minimax_error(value)


def _minimax_error(value: Mapping[object, object]) -> UpstreamError | None:
    """MiniMax answers 200 with `choices: null` and says why in `base_resp`."""
    reply = value.get("base_resp")
    if not isinstance(reply, dict) or reply.get("status_code") in _GOOD_CODES:
        return None
    message = _text(reply.get("status_msg")) or _NO_TEXT
    return UpstreamError(message=message, kind="base_resp", code=_word(reply.get("status_code")))


def _error_from_text(text: str) -> UpstreamError:
    """An event that is named an error but whose data is plain text."""
    return UpstreamError(message=_cut(text) or _NO_TEXT, kind="error")


def error_in_event(data: str) -> UpstreamError:
    """An event that says of itself that it is an error, in whatever shape."""
    try:
        value = loose_value(data)
    except Unreadable:
        return _error_from_text(data if data.lstrip()[:1] not in "{[" else "")
    return find_error(value) or find_error({"error": value}) or _error_from_text("")


def _from_members(members: Mapping[object, object], status: int | None) -> UpstreamError:
    code = members.get("code")
    number = members.get("status_code") or code
    if status is None and isinstance(number, int) and 400 <= number <= 599:
        status = number
    param = members.get("param")
    return UpstreamError(
        message=_text(members.get("message")) or _text(members.get("msg")) or _NO_TEXT,
        kind=_word(members.get("type")) or _word(members.get("status")),
        code=_word(code),
        param=_word(param) or None,
        status=status,
    )


def _from_text(body: bytes, status: int) -> UpstreamError:
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return UpstreamError(f"The upstream answered with status {status}.", kind="empty", status=status)
    if _HTML.match(body):
        title = _TITLE.search(text)
        message = _cut(title[1]) if title else ""
        return UpstreamError(message or "The upstream answered with a web page.", kind="html", status=status)
    return UpstreamError(_cut(text), kind="text", status=status)


def _detail_text(detail: object) -> str:
    """FastAPI's `detail`: a text, or a list of validation errors with the place of each."""
    if isinstance(detail, list):
        return _cut("; ".join(_one_detail(entry) for entry in detail[:10])) or _NO_TEXT
    if isinstance(detail, dict):
        return _text(detail.get("message")) or _text(detail.get("msg")) or _NO_TEXT
    return _text(detail) or _NO_TEXT


def _one_detail(entry: object) -> str:
    if not isinstance(entry, dict):
        return _text(entry)
    place = entry.get("loc")
    where = ".".join(_text(part) for part in place[:10]) if isinstance(place, list) else ""
    return f"{where}: {_text(entry.get('msg'))}" if where else _text(entry.get("msg"))


def _text(value: object) -> str:
    """Strings and numbers as text; what is nested is not shown, it may hold the request."""
    if isinstance(value, str):
        return _cut(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _word(value: object) -> str:
    return _text(value)[:_MAX_WORD_CHARS]


def _cut(text: str) -> str:
    text = " ".join(text[: 4 * MAX_MESSAGE_CHARS].split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"
