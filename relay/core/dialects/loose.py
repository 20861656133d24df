"""Reads and writes JSON as freely as vendors write it: halves of surrogate pairs, members of any type.

Of a member, what does not fit counts as absent. Must not import a dialect.
"""

import json

import msgspec


class Unreadable(ValueError):
    """The data is not JSON, not an object, or not of the shape that the protocol has."""


def loose_json(data: str) -> dict[str, object]:
    r"""A JSON object as Python objects; unlike msgspec this takes halves of surrogate pairs.

    A server that cuts an emoji in two sends `"\ud83d"` and `"\ude00"` in two events: each is JSON by
    its grammar, and clients join them. Raises `Unreadable`; NaN and Infinity are not JSON.
    """
    value = loose_value(data)
    if not isinstance(value, dict):
        raise Unreadable("not an object")
    return value


def loose_value(data: str) -> object:
    """The same of any JSON."""
    try:
        return _decoder.decode(data)
    except (ValueError, RecursionError):
        raise Unreadable("not JSON") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def encoded(value: object) -> bytes:
    """Halves of surrogate pairs that came in two events join to a whole pair as escapes."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":"), default=_decoded).encode()


def raw_of(value: object) -> msgspec.Raw:
    """Decoded JSON as its bytes again; escaped, so that halves of surrogate pairs do no harm."""
    return msgspec.Raw(json.dumps(value).encode())


def _decoded(raw: object) -> object:
    if not isinstance(raw, msgspec.Raw):
        raise TypeError(type(raw).__name__)
    return json.loads(bytes(raw))


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None


def joined_text(value: object) -> str | None:
    """Text, or the texts within content parts: Mistral's reasoning models stream lists of parts."""
    if not isinstance(value, list | dict):
        return text(value)
    texts: list[str] = []
    pending: list[object] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(reversed(part))
        elif isinstance(part, dict):
            pending.extend(part[name] for name in ("text", "thinking") if name in part)
        elif isinstance(part, str):
            texts.append(part)
    return "".join(texts)
