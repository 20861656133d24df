"""Reads a whole (not streamed) message: usage, stop reason, model, an error inside a 200.

Must not build Python objects of the answer's text.
"""

import msgspec

from relay.core.dialects.anthropic.usage import usage_from_raw
from relay.core.dialects.base import TOOL_CALL_INVALID, WholeAnswer
from relay.core.dialects.members import answer_members, items, text, value
from relay.core.dialects.upstream_errors import find_error

CLIENT_TOOL = "tool_use"


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None
    input: dict[str, msgspec.Raw] | None = None


_read_block = msgspec.json.Decoder(_Block).decode


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is not a JSON object, or neither a message nor an error.

    A message has a list of content blocks. An empty one is an answer only where a stop reason or a usage says
    that the upstream did work. Else another channel may do better.
    """
    members = answer_members(body)
    content = items(members.get("content"))
    if content is None or "error" in members:
        found = find_error(value(body))
        if found is not None:
            return WholeAnswer(error=found)
    if content is None:
        raise ValueError("no list of content blocks")
    reported = usage_from_raw(members.get("usage"))
    stop_reason = text(members.get("stop_reason"))
    if not content and reported.tokens is None and not stop_reason:
        raise ValueError("no content")
    soft_errors = reported.soft_errors
    if not all(map(_is_sound, content)):
        soft_errors = (*soft_errors, TOOL_CALL_INVALID)
    return WholeAnswer(
        usage=reported.tokens,
        finish_reasons=(stop_reason,) if stop_reason else (),
        model=text(members.get("model")),
        soft_errors=soft_errors,
    )


def _is_sound(raw: msgspec.Raw) -> bool:
    """A tool call has a name and an object as input. What else a block holds is not looked at."""
    if f'"{CLIENT_TOOL}"'.encode() not in bytes(raw):
        return True
    try:
        block = _read_block(raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return block.type != CLIENT_TOOL or (bool(block.name) and block.input is not None)
