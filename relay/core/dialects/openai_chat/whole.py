"""Reads a whole (not streamed) chat completion: usage, finish reasons, model, an error inside a 200.

Must not build Python objects of the answer's text.
"""

import msgspec

from relay.core.dialects.base import WholeAnswer
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.upstream_errors import find_error

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


_read_choices = msgspec.json.Decoder(list[_Choice]).decode


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is not a JSON object."""
    try:
        members = _read_members(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if "choices" not in members or "error" in members or "base_resp" in members:
        found = find_error(_decoded(body))
        if found is not None:
            return WholeAnswer(error=found)
    usage = members.get("usage")
    return WholeAnswer(
        usage=usage_from_raw(usage) if usage is not None else None,
        finish_reasons=_finish_reasons(members.get("choices")),
        model=_model(members.get("model")),
    )


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
