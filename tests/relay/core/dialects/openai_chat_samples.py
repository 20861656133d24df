"""Chunks and asks for the tests of the OpenAI chat dialect."""

import json
from collections.abc import Iterable

from relay.core.dialects import OPENAI_CHAT
from relay.core.dialects.base import Ask, EventKind, Relayed, StreamInspector
from relay.core.sse import Event, EventStreamParser

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def ask(**fields: object) -> Ask:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}
    return OPENAI_CHAT.parse_request(json.dumps(body).encode())


def ask_with_usage(**fields: object) -> Ask:
    return ask(stream_options={"include_usage": True}, **fields)


def chunk(
    delta: object = None, finish: object = None, *, index: int = 0, **members: object
) -> dict[str, object]:
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_718_000_000,
        "model": "gpt-4o-2024-08-06",
        "choices": [choice],
        **members,
    }


def call(
    index: object = 0, call_id: object = None, name: object = None, arguments: object = None
) -> dict[str, object]:
    """One tool-call fragment; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    members = {"index": index, "id": call_id, "function": function or None}
    return {key: value for key, value in members.items() if value is not None}


def calls(*fragments: dict[str, object]) -> dict[str, object]:
    return chunk({"tool_calls": list(fragments)})


def frame(data: object) -> bytes:
    return b"data: " + (data.encode() if isinstance(data, str) else json.dumps(data).encode()) + b"\n\n"


def events_of(*frames: object) -> list[Event]:
    """Frames as bytes, or what belongs behind `data:`: JSON values, text."""
    body = b"".join(item if isinstance(item, bytes) else frame(item) for item in frames)
    parser = EventStreamParser(keep_comments=True)
    return [*parser.feed(body), *parser.close()]


def observe(inspector: StreamInspector, *frames: object) -> list[Relayed]:
    return [inspector.observe(event, 0) for event in events_of(*frames)]


def relayed(*frames: object, asked: Ask | None = None) -> tuple[StreamInspector, bytes]:
    """The inspector after the stream, and the bytes the client got."""
    inspector = OPENAI_CHAT.stream_inspector(asked or ask())
    return inspector, b"".join(out for _, out in observe(inspector, *frames))


def kinds(results: Iterable[Relayed]) -> list[EventKind]:
    return [kind for kind, _ in results]


def payloads(out: bytes) -> list[object]:
    """What a client reads from `out`: the JSON of each event, `[DONE]` as text."""
    return [
        event.data if event.data == "[DONE]" else json.loads(event.data)
        for event in EventStreamParser().feed(out)
    ]
