"""Reads a whole (not streamed) chat completion: usage, finish reasons, model, an error inside a 200.

Must not build Python objects of the answer's text.
"""

import msgspec

from relay.core.dialects.base import WholeAnswer
from relay.core.dialects.members import answer_members, items, text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.upstream_errors import find_error


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


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
        soft_errors=reported.soft_errors,
    )


def _finish_reasons(raw: msgspec.Raw | None) -> tuple[str, ...]:
    if raw is None:
        return ()
    try:
        return tuple(choice.finish_reason for choice in _read_choices(raw) if choice.finish_reason)
    except msgspec.MsgspecError:
        return ()
