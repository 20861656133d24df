"""Takes JSON answers apart into their members' own bytes, so that texts and pictures need no Python objects.

Never decides what a member means. Must not import a dialect.
"""

import json

import msgspec

Members = dict[str, msgspec.Raw]

_read_members = msgspec.json.Decoder(Members).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode
_read_value = msgspec.json.Decoder().decode


def answer_members(body: bytes) -> Members:
    """Of a whole answer. Raises ValueError when it is not a JSON object.

    Halves of surrogate pairs, which msgspec refuses, are read as question marks.
    """
    try:
        return _read_members(body)
    except ValueError:
        if b"\\u" not in body:
            raise
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant)
        return _read_members(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def members(raw: msgspec.Raw | None) -> Members:
    """Empty when `raw` is no object."""
    try:
        return _read_members(raw) if raw is not None else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def items(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    """None when `raw` is no list."""
    try:
        return _read_items(raw) if raw is not None else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def text(raw: msgspec.Raw | None) -> str:
    """Empty when `raw` is no string."""
    try:
        return _read_text(raw) if raw is not None else ""
    except msgspec.MsgspecError:
        return ""


def value(raw: msgspec.Raw | bytes | None) -> object:
    """As Python objects; None for what cannot be decoded."""
    try:
        return _read_value(raw) if raw is not None else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def is_set(raw: msgspec.Raw | None) -> bool:
    """Whether a member is there and not null."""
    return raw is not None and bytes(raw) != b"null"


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
