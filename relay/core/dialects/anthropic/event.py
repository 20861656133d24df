"""One event of a message stream, decoded as far as the relay looks at it.

`strict_event` is the hot path: a typed decode that skips everything else. What has another type than
Anthropic's takes the loose path, which keeps what fits. Must not decide anything.
"""

from collections.abc import Mapping

import msgspec

from relay.core.dialects.anthropic.usage import Usage, loose_usage
from relay.core.dialects.loose import loose_json, text, whole_number

_UNSET = msgspec.UNSET


class Delta(msgspec.Struct, gc=False):
    """Of a content block, or of the message (`stop_reason`)."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    content: str | None = None
    """A summary of the context (`compaction_delta`)."""
    stop_reason: str | None = None


class Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = _UNSET


class Message(msgspec.Struct, gc=False):
    model: str | None = None
    usage: Usage | None = None


class StreamEvent(msgspec.Struct, gc=False):
    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: Block | None = None
    message: Message | None = None
    usage: Usage | None = None
    error: msgspec.Raw | msgspec.UnsetType = _UNSET


strict_event = msgspec.json.Decoder(StreamEvent).decode
"""The hot path: typed. Raises ValueError or RecursionError; `loose_event` then takes what fits."""

strict_events = msgspec.json.Decoder(list[StreamEvent]).decode
"""The same for the events of a whole read, as one JSON list."""


def loose_event(data: str) -> StreamEvent:
    """Raises `Unreadable`, nothing else."""
    value = loose_json(data)
    message = value.get("message")
    return StreamEvent(
        type=text(value.get("type")) or "",
        index=whole_number(value.get("index")),
        delta=_loose_delta(value.get("delta")),
        content_block=_loose_block(value.get("content_block")),
        message=_loose_message(message) if isinstance(message, dict) else None,
        usage=loose_usage(value.get("usage")),
        error=msgspec.Raw(b"true") if value.get("error") else _UNSET,
    )


def _loose_delta(value: object) -> Delta | None:
    if not isinstance(value, dict):
        return None
    return Delta(
        type=text(value.get("type")) or "",
        text=text(value.get("text")),
        thinking=text(value.get("thinking")),
        partial_json=text(value.get("partial_json")),
        signature=text(value.get("signature")),
        content=text(value.get("content")),
        stop_reason=text(value.get("stop_reason")),
    )


def _loose_block(value: object) -> Block | None:
    if not isinstance(value, dict):
        return None
    return Block(
        type=text(value.get("type")) or "",
        id=text(value.get("id")),
        name=text(value.get("name")),
        text=text(value.get("text")),
        thinking=text(value.get("thinking")),
    )


def _loose_message(value: Mapping[str, object]) -> Message:
    return Message(model=text(value.get("model")), usage=loose_usage(value.get("usage")))
