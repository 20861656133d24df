"""One event of a chat completion stream, decoded as far as the relay looks at it.

`strict_chunk` is the hot path: a typed decode that skips everything else. A vendor that puts another type
where OpenAI has text or a number (a list as `content`, a float as `index`) takes the loose path, which
keeps what fits. Must not decide anything.
"""

import json
from collections.abc import Mapping

import msgspec

from relay.core.dialects.loose import Unreadable, joined_text, loose_json, text, whole_number
from relay.core.dialects.openai_chat.usage import Usage, loose_usage


class FunctionFragment(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCallFragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None
    custom: FunctionFragment | None = None
    """A custom tool: a name and free text, no arguments."""


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallFragment] | None = None
    function_call: FunctionFragment | None = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    text: str | None = None
    """Legacy completions stream text here and have no delta."""
    usage: Usage | None = None
    """Moonshot reports usage in the last choice."""


class VendorUsage(msgspec.Struct, gc=False):
    usage: Usage | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | msgspec.UnsetType | None = msgspec.UNSET
    usage: Usage | None = None
    model: str | None = None
    x_groq: VendorUsage | None = None
    """Groq reports usage here when not asked for it."""
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


strict_chunk = msgspec.json.Decoder(Chunk).decode
"""The hot path: typed. Raises ValueError or RecursionError; `loose_chunk` then takes what fits."""


strict_chunks = msgspec.json.Decoder(list[Chunk]).decode
"""The same for the events of a whole read, as one JSON list."""


def loose_chunk(data: str) -> Chunk:
    """Raises `Unreadable`, nothing else."""
    if data.startswith("["):  # `[DONE]` above all: no need to look for an object in it
        raise Unreadable("not an object")
    return _chunk_of(loose_json(data))


def _chunk_of(value: Mapping[str, object]) -> Chunk:
    choices = value.get("choices", msgspec.UNSET)
    if not isinstance(choices, list | msgspec.UnsetType | None):
        raise Unreadable("choices are no list")
    groq = value.get("x_groq")
    return Chunk(
        choices=_loose_choices(choices) if isinstance(choices, list) else choices,
        usage=loose_usage(value.get("usage")),
        model=text(value.get("model")),
        x_groq=VendorUsage(loose_usage(groq.get("usage"))) if isinstance(groq, dict) else None,
        error=msgspec.Raw(b"true") if value.get("error") else msgspec.UNSET,
    )


def _loose_choices(choices: list[object]) -> list[Choice]:
    """One `Choice` per entry, objects or not, so that positions match the event."""
    return [_loose_choice(choice) if isinstance(choice, dict) else Choice() for choice in choices]


def _loose_choice(choice: Mapping[str, object]) -> Choice:
    delta = choice.get("delta")
    return Choice(
        index=whole_number(choice.get("index")) or 0,
        delta=_loose_delta(delta) if isinstance(delta, dict) else None,
        finish_reason=text(choice.get("finish_reason")),
        text=text(choice.get("text")),
        usage=loose_usage(choice.get("usage")),
    )


def _loose_delta(delta: Mapping[str, object]) -> Delta:
    calls = delta.get("tool_calls")
    call = delta.get("function_call")
    return Delta(
        content=joined_text(delta.get("content")),
        reasoning_content=joined_text(delta.get("reasoning_content")),
        reasoning=joined_text(delta.get("reasoning")),
        refusal=text(delta.get("refusal")),
        tool_calls=_loose_calls(calls) if isinstance(calls, list) else None,
        function_call=_loose_function(call) if isinstance(call, dict) else None,
    )


def _loose_calls(calls: list[object]) -> list[ToolCallFragment]:
    """Entries that are no objects become empty fragments, so that positions still match the event."""
    fragments = []
    for call in calls:
        members = call if isinstance(call, dict) else {}
        function = members.get("function")
        custom = members.get("custom")
        fragments.append(
            ToolCallFragment(
                index=whole_number(members.get("index")),
                id=text(members.get("id")),
                function=_loose_function(function) if isinstance(function, dict) else None,
                custom=_loose_function(custom) if isinstance(custom, dict) else None,
            )
        )
    return fragments


def _loose_function(function: Mapping[str, object]) -> FunctionFragment:
    arguments = function.get("arguments")
    if isinstance(arguments, dict | list):  # Ollama's native shape: an object instead of its text
        arguments = json.dumps(arguments)
    return FunctionFragment(name=text(function.get("name")), arguments=text(arguments))


class _Named(msgspec.Struct, gc=False):
    id: str | None = None


_read_named = msgspec.json.Decoder(_Named).decode


def answer_id(data: str) -> str:
    """The `id` of an event, asked for once a stream; empty if there is none."""
    try:
        return _read_named(data).id or ""
    except (ValueError, RecursionError):
        return ""


class _AnyDelta(msgspec.Struct, gc=False):
    delta: dict[str, msgspec.Raw] | None = None


class _AnyChunk(msgspec.Struct, gc=False):
    choices: list[_AnyDelta] | None = None


_read_any = msgspec.json.Decoder(_AnyChunk).decode
_EMPTY = frozenset({b"null", b'""', b"[]", b"{}", b"false"})
_KNOWN_EMPTY = frozenset({"role"})


def carries_more(data: str) -> bool:
    """Whether a delta without text has members of its own kind: audio, images, annotations.

    Asked only of events that would otherwise count as announcements.
    """
    try:
        chunk = _read_any(data)
    except (ValueError, RecursionError):
        return False
    return any(
        bytes(value) not in _EMPTY and name not in _KNOWN_EMPTY
        for choice in chunk.choices or ()
        for name, value in (choice.delta or {}).items()
    )
