"""Reads a client's JSON body: strict, in bounded time, without building the prompt as Python objects.

One reading serves policy, billing and forwarding: with `{"model": "cheap", "model": "dear"}` a gateway that
checks one and an upstream that obeys the other would otherwise disagree. So a dialect sends on what it writes
anew from these fields; one that sends the client's bytes does so where that is the same, see
`as_sent.read_as_sent`. Must not import a dialect.
"""

import re
from itertools import accumulate

import msgspec

from relay.core.errors import Refusal

MAX_DEPTH = 256
MAX_ITEMS = 100_000
"""Of one list that the relay counts (messages, tools). Nothing honest comes near it."""

_MAX_CONTAINERS = 1_000_000
_MAX_STRINGS = 500_000
"""Member names count too. They bound the time that reading a hostile body takes."""

_SIGN_OF_BRACKET = bytes.maketrans(b"[{]}", b"\x01\x01\x02\x02")
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_STRING = re.compile(rb'"[^"]*"?')

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Object(msgspec.Struct, gc=False):
    """Any JSON object, its members skipped: what is only counted costs one small object."""


_read_objects = msgspec.json.Decoder(list[_Object]).decode


def read_top_level(body: bytes) -> dict[str, msgspec.Raw]:
    """The members of the body's one JSON object; of a repeated name the last one counts.

    Raises `Refusal` (400) for anything that is not strict JSON (RFC 8259: no NaN, no lone surrogate,
    UTF-8 only), not an object, nested deeper than `MAX_DEPTH` or made of too many parts.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise _not_json(f"byte {error.start} is not UTF-8") from None
    _refuse_excess(body)
    try:
        return _read_fields(body)
    except msgspec.ValidationError:
        raise Refusal(400, "The request body must be a JSON object.", code="invalid_json") from None
    except msgspec.DecodeError as error:
        raise _not_json(str(error)) from None
    except RecursionError:
        raise _too_deep() from None


def count_objects(raw: msgspec.Raw, param: str) -> int:
    """How many objects the JSON list `raw` has. Raises `Refusal` (400) naming `param`."""
    try:
        count = len(_read_objects(raw))
    except msgspec.MsgspecError:
        raise Refusal(
            400, f"'{param}' must be a list of objects.", code="invalid_type", param=param
        ) from None
    if count > MAX_ITEMS:
        raise Refusal(400, f"'{param}' has more than {MAX_ITEMS} entries.", code="invalid_value", param=param)
    return count


def _not_json(detail: str) -> Refusal:
    return Refusal(400, f"The request body is not valid JSON: {detail}.", code="invalid_json")


def _too_deep() -> Refusal:
    return Refusal(400, f"The request body is nested deeper than {MAX_DEPTH} levels.", code="invalid_json")


def _refuse_excess(body: bytes) -> None:
    """Measures depth and number of parts before anything is decoded.

    The decoder's own limit is the interpreter's stack, so what it accepts would depend on who calls.
    Bodies with few brackets and quotes, which is nearly all, are cleared by counting alone.
    """
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= MAX_DEPTH and body.count(b'"') <= _MAX_STRINGS:
        return
    if b"\\" in body:  # escapes live in strings only: without them each quote opens or closes one
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 2 * _MAX_STRINGS:
        raise Refusal(400, "The request body has too many values.", code="invalid_json")
    outside = b"".join(part.translate(None, _ALL_BUT_BRACKETS) for part in _STRING.split(body))
    if len(outside) > 2 * _MAX_CONTAINERS:
        raise Refusal(400, "The request body has too many values.", code="invalid_json")
    signs = outside.translate(_SIGN_OF_BRACKET)
    if max(accumulate(1 if sign == 1 else -1 for sign in signs), default=0) > MAX_DEPTH:
        raise _too_deep()
