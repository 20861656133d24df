"""Streams of the Responses API as they were seen on the wire, cut down, for the tests of its dialect."""

import json
from collections.abc import Iterable

from relay.core.dialects import OPENAI_RESPONSES
from relay.core.dialects.base import EventKind, StreamInspector
from relay.core.sse import Event, EventStreamParser

USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 12},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hällo world", "annotations": [], "logprobs": []}],
}
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "thinking hard"}],
    "encrypted_content": "gAAA",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"city":"Paris"}',
    "call_id": "call_1",
    "name": "get_weather",
}
PICTURE = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo="}


def response(*output: object, status: str = "completed", **members: object) -> dict[str, object]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_741_476_777,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5-2025-08-07",
        "output": list(output),
        "usage": USAGE if status in ("completed", "incomplete") else None,
        **members,
    }


def event(kind: str, *, named: bool = True, **members: object) -> bytes:
    data = json.dumps({"type": kind, "sequence_number": 1, **members}, ensure_ascii=False).encode()
    return (b"event: " + kind.encode() + b"\n" if named else b"") + b"data: " + data + b"\n\n"


CREATED = event("response.created", response=response(status="in_progress"))
IN_PROGRESS = event("response.in_progress", response=response(status="in_progress"))
OPENED = event(
    "response.output_item.added", output_index=0, item={**MESSAGE, "status": "in_progress", "content": []}
)
PART = event(
    "response.content_part.added",
    output_index=0,
    item_id="msg_1",
    content_index=0,
    part={"type": "output_text", "text": ""},
)
HELLO = event("response.output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="Hällo")
WORLD = event("response.output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta=" world")
DONE = event("response.output_item.done", output_index=0, item=MESSAGE)
COMPLETED = event("response.completed", response=response(MESSAGE))
INCOMPLETE = event(
    "response.incomplete",
    response=response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
)
FAILED = event(
    "response.failed",
    response=response(status="failed", error={"code": "server_error", "message": "it broke"}),
)
ERROR = event("error", code="rate_limit_exceeded", message="slow down", param=None)
PREAMBLE = [CREATED, IN_PROGRESS, OPENED, PART]
TEXT_STREAM = [*PREAMBLE, HELLO, WORLD, DONE, COMPLETED]


def call_events(*pieces: str, index: int = 0, item: dict[str, object] = CALL, **done: object) -> list[bytes]:
    """A tool call as it arrives: opened, its arguments in pieces, done."""
    name = "response.function_call_arguments.delta"
    opened = {**item, "arguments": "", "status": "in_progress"}
    return [
        event("response.output_item.added", output_index=index, item=opened),
        *(event(name, output_index=index, item_id="fc_1", delta=piece) for piece in pieces),
        event("response.output_item.done", output_index=index, item={**item, **done}),
    ]


def events_of(data: bytes, cuts: Iterable[int] = ()) -> list[Event]:
    parser = EventStreamParser(keep_comments=True)
    events: list[Event] = []
    start = 0
    for end in (*cuts, len(data)):
        events += parser.feed(data[start:end])
        start = end
    return [*events, *parser.close()]


def inspector() -> StreamInspector:
    return OPENAI_RESPONSES.stream_inspector(
        OPENAI_RESPONSES.parse_request(b'{"model":"m","input":"hi","stream":true}')
    )


def judged(*frames: bytes, cuts: Iterable[int] = ()) -> tuple[StreamInspector, list[EventKind], bytes]:
    looking = inspector()
    seen = [looking.observe(one, 7) for one in events_of(b"".join(frames), cuts)]
    return looking, [kind for kind, _ in seen], b"".join(out for _, out in seen)
