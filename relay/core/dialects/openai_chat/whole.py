"""Reads a whole (not streamed) chat completion: usage, finish reasons, model, an error inside a 200.

Must not build Python objects of the answer's text.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, WholeAnswer
from relay.core.dialects.members import answer_members, items, text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.upstream_errors import find_error
from relay.core.tool_calls import are_whole_arguments


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    tool_calls: list[_Call] | None = None


class _Calling(msgspec.Struct, gc=False):
    message: _Message | None = None


_read_calls = msgspec.json.Decoder(list[_Calling]).decode
_read_choices = msgspec.json.Decoder(list[_Choice]).decode


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is not a JSON object, or neither an answer nor an error.

    An answer has a list of choices. An empty one is an answer only where something says that the upstream
    did work: a usage, or Azure's verdict on a prompt that it filtered. Else another channel may do better.
    """
    members = answer_members(body)
    choices = items(members.get("choices"))
    if not choices or "error" in members or "base_resp" in members:
        found = find_error(value(body))
        if found is not None:
            return WholeAnswer(error=found)
    reported = usage_from_raw(members.get("usage"))
    if choices is None:
        raise ValueError("no list of choices")
    if not choices and reported.tokens is None and items(members.get("prompt_filter_results")) is None:
        raise ValueError("no choices")
    return WholeAnswer(
        usage=reported.tokens,
        finish_reasons=_finish_reasons(members.get("choices")),
        model=text(members.get("model")),
        answer_id=text(members.get("id")),
        soft_errors=reported.soft_errors + _call_errors(members.get("choices")),
    )


def _call_errors(raw: msgspec.Raw | None) -> tuple[str, ...]:
    """Of function calls in the usual shape; others are not judged."""
    if raw is None or b'"tool_calls"' not in bytes(raw):
        return ()
    try:
        choices = _read_calls(raw)
    except msgspec.MsgspecError:
        return ()
    calls = [call for one in choices if one.message is not None for call in one.message.tool_calls or ()]
    functions = [call.function for call in calls if call.function is not None]
    are_sound = all(one.name and are_whole_arguments(one.arguments or "") for one in functions)
    return () if are_sound else (TOOL_CALL_INVALID,)


def _finish_reasons(raw: msgspec.Raw | None) -> tuple[str, ...]:
    if raw is None:
        return ()
    try:
        return tuple(choice.finish_reason for choice in _read_choices(raw) if choice.finish_reason)
    except msgspec.MsgspecError:
        return ()
