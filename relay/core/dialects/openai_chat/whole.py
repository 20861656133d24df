"""Reads a whole (not streamed) chat completion: usage, finish reasons, model, an error inside a 200.

Must not build Python objects of the answer's text.
"""

import json

import msgspec

from relay.core.dialects.base import WholeAnswer
from relay.core.dialects.openai_chat.chunk import loose_json
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.upstream_errors import find_error

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


_read_choices = msgspec.json.Decoder(list[_Choice]).decode


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is not a JSON object, or neither an answer nor an error.

    An answer has a list of choices. An empty one is an answer only where something says that the upstream
    did work: a usage, or Azure's verdict on a prompt that it filtered. Else another channel may do better.
    """
    members = _members(body)
    choices = _items(members.get("choices"))
    if not choices or "error" in members or "base_resp" in members:
        found = find_error(_decoded(body))
        if found is not None:
            return WholeAnswer(error=found)
    reported = usage_from_raw(members.get("usage"))
    if choices is None:
        raise ValueError("no list of choices")
    if not choices and reported.tokens is None and _items(members.get("prompt_filter_results")) is None:
        raise ValueError("no choices")
    return WholeAnswer(
        usage=reported.tokens,
        finish_reasons=_finish_reasons(members.get("choices")),
        model=_model(members.get("model")),
        soft_errors=reported.soft_errors,
    )


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    """Raises ValueError. Halves of surrogate pairs, which msgspec refuses, are read as question marks."""
    try:
        return _read_members(body)
    except ValueError:
        if b"\\u" not in body:
            raise
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    try:
        return _read_members(
            json.dumps(loose_json(body.decode()), ensure_ascii=False).encode("utf-8", "replace")
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _items(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    """None when `raw` is no list."""
    try:
        return _read_items(raw) if raw is not None else None
    except msgspec.MsgspecError:
        return None


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _finish_reasons(raw: msgspec.Raw | None) -> tuple[str, ...]:
    if raw is None:
        return ()
    try:
        return tuple(choice.finish_reason for choice in _read_choices(raw) if choice.finish_reason)
    except msgspec.MsgspecError:
        return ()


def _model(raw: msgspec.Raw | None) -> str:
    if raw is None:
        return ""
    try:
        return _read_text(raw)
    except msgspec.MsgspecError:
        return ""
