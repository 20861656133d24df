"""Message streams and frames for the tests of Anthropic's dialect.

The streams are put as the API puts them: https://platform.claude.com/docs/en/build-with-claude/streaming,
/extended-thinking and /agents-and-tools/tool-use/web-search-tool.
"""

import json
from collections.abc import Iterable

from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.dialects.base import Ask, EventKind, StreamInspector
from relay.core.sse import Event, EventStreamParser


def frame(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def started(**usage: object) -> bytes:
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-20250514",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 25, "output_tokens": 1},
    }
    return frame("message_start", message=message)


def opened(index: int, **block: object) -> bytes:
    return frame("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **fields: object) -> bytes:
    return frame("content_block_delta", index=index, delta={"type": kind, **fields})


def said(text: str, index: int = 0) -> bytes:
    return delta(index, "text_delta", text=text)


def part_of_input(text: str, index: int = 0) -> bytes:
    return delta(index, "input_json_delta", partial_json=text)


def closed(index: int = 0) -> bytes:
    return frame("content_block_stop", index=index)


def ended(reason: str | None = "end_turn", **usage: object) -> bytes:
    counts = usage or {"output_tokens": 15}
    return frame("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=counts)


def calling(arguments: Iterable[str], index: int = 0, **block: object) -> bytes:
    named = {"type": "tool_use", "id": f"toolu_0{index}", "name": "get_weather", "input": {}, **block}
    pieces = (part_of_input(piece, index) for piece in arguments)
    return b"".join([opened(index, **named), *pieces, closed(index)])


PING = frame("ping")
STOP = frame("message_stop")
TEXT = opened(0, type="text", text="")
OVERLOADED = frame("error", error={"type": "overloaded_error", "message": "Overloaded"})

HELLO = b"".join([started(), TEXT, PING, said("Hello"), said("! Größe \u2028 😀"), closed(), ended(), STOP])

TOOLS = b"".join(
    [
        started(input_tokens=472, cache_creation_input_tokens=0, cache_read_input_tokens=0, output_tokens=2),
        TEXT,
        PING,
        said("Okay, let's check the weather:"),
        closed(),
        calling(["", '{"location":', ' "San', " Francisc", 'o, CA"', ', "unit": "fah', 'renheit"}'], 1),
        calling(['{"location": "Oslo"}'], 2),
        ended("tool_use", output_tokens=89),
        STOP,
    ]
)

THINKING = b"".join(
    [
        started(),
        opened(0, type="thinking", thinking="", signature=""),
        delta(
            0, "thinking_delta", thinking="Let me solve this step by step:\n\n1. First break down 27 * 453"
        ),
        delta(0, "thinking_delta", thinking="\n2. 453 = 400 + 50 + 3"),
        delta(0, "signature_delta", signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk"),
        closed(0),
        opened(1, type="redacted_thinking", data="EmwKAhgBEgy3va3pzix"),
        closed(1),
        opened(2, type="text", text=""),
        said("27 * 453 = 12,231", 2),
        closed(2),
        ended(output_tokens=60, output_tokens_details={"thinking_tokens": 41}),
        STOP,
    ]
)

_PAGE = {"type": "web_search_result", "url": "https://example.org/", "title": "T", "encrypted_content": "Eo8"}
_CITED = {"type": "web_search_result_location", "url": "https://example.org/", "cited_text": "It rains."}
SEARCH = b"".join(
    [
        started(input_tokens=2679, cache_creation_input_tokens=0, cache_read_input_tokens=0, output_tokens=3),
        opened(0, type="server_tool_use", id="srvtoolu_01", name="web_search", input={}),
        part_of_input('{"query": "weather', 0),
        part_of_input(' NYC"}', 0),
        closed(0),
        opened(1, type="web_search_tool_result", tool_use_id="srvtoolu_01", content=[_PAGE]),
        closed(1),
        opened(2, type="text", text="", citations=[]),
        said("It rains.", 2),
        delta(2, "citations_delta", citation=_CITED),
        closed(2),
        ended(
            input_tokens=10682,
            cache_creation_input_tokens=0,
            cache_read_input_tokens=0,
            output_tokens=510,
            server_tool_use={"web_search_requests": 1},
        ),
        STOP,
    ]
)

STREAMS = {"hello": HELLO, "tools": TOOLS, "thinking": THINKING, "search": SEARCH}


def ask(**fields: object) -> Ask:
    body = {
        "model": "claude",
        "max_tokens": 99,
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    }
    return ANTHROPIC.parse_request(json.dumps({**body, **fields}).encode())


def events_of(*data: bytes) -> list[Event]:
    parser = EventStreamParser(keep_comments=True)
    events = [event for piece in data for event in parser.feed(piece)]
    return [*events, *parser.close()]


def observed(*data: bytes) -> tuple[StreamInspector, list[EventKind], bytes]:
    """The inspector after the stream, its verdicts, and the bytes the client got."""
    inspector = ANTHROPIC.stream_inspector(ask())
    results = [inspector.observe(event, 0) for event in events_of(*data)]
    return inspector, [kind for kind, _ in results], b"".join(out for _, out in results)


def soft_errors(inspector: StreamInspector) -> list[str]:
    return [error.error_class for error in inspector.facts.soft_errors]
