"""Turns a whole response into the events of the stream that the client asked for. Loses nothing.

Every event has its `sequence_number`, those of an item its `output_index` and `item_id`; the response
objects of the first events have `created_at` and `model`: SDKs demand them (vercel/ai validates each).
Aggregating these events gives the same answer again. Must not know timing: all events exist at once.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from relay.core.dialects.members import Members, answer_members, is_set, items, members, text
from relay.core.dialects.pieces import pieces
from relay.core.sse import encode_event

_ZERO = msgspec.Raw(b"0")

_Step = tuple[str, dict[str, object]]
"""An event's type, and its members beside type and number."""


def whole_to_events(body: bytes) -> Iterator[bytes]:
    """The frames, the last event included. Raises ValueError at once when `body` is no response."""
    response = answer_members(body)
    output = items(response.get("output"))
    if output is None:
        raise ValueError("no output")
    return _frames(_steps(response, [members(item) for item in output]))


def _frames(steps: Iterator[_Step]) -> Iterator[bytes]:
    for number, (kind, fields) in enumerate(steps):
        event = {"type": kind, "sequence_number": number, **fields}
        yield encode_event(msgspec.json.encode(event), kind)


def _steps(response: Members, output: list[Members]) -> Iterator[_Step]:
    opening: dict[str, object] = {"created_at": _ZERO, "model": "", **response}
    opening |= {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield "response.created", {"response": opening}
    yield "response.in_progress", {"response": opening}
    for index, item in enumerate(output):
        yield from _item_steps(index, item)
    status = "incomplete" if text(response.get("status")) == "incomplete" else "completed"
    yield f"response.{status}", {"response": response}


def _item_steps(index: int, item: Members) -> Iterator[_Step]:
    kind = text(item.get("type"))
    emptied, inner = _BY_TYPE.get(kind, ({}, _no_steps))
    opened: dict[str, object] = {**item, **{name: empty for name, empty in emptied.items() if name in item}}
    if "status" in item:
        opened["status"] = "in_progress"
    yield "response.output_item.added", {"output_index": index, "item": opened}
    at: dict[str, object] = {"item_id": text(item.get("id")) or f"item_{index}", "output_index": index}
    yield from inner(at, item)
    yield "response.output_item.done", {"output_index": index, "item": item}


def _no_steps(at: Mapping[str, object], item: Members) -> Iterator[_Step]:  # noqa: ARG001 - as its siblings
    return iter(())


def _message_steps(at: Mapping[str, object], item: Members) -> Iterator[_Step]:
    for index, part in enumerate(items(item.get("content")) or ()):
        yield from _part_steps({**at, "content_index": index}, members(part))


def _part_steps(at: dict[str, object], part: Members) -> Iterator[_Step]:
    """One part of a message's (or a reasoning item's) content."""
    kind, field = _PARTS.get(text(part.get("type")), ("", ""))
    emptied: dict[str, object] = {field: "", "annotations": [], "logprobs": []} if kind else {}
    opened = {**part, **{name: empty for name, empty in emptied.items() if name in part}}
    yield "response.content_part.added", {**at, "part": opened}
    if kind:
        yield from _text_steps(f"response.{kind}", at, field, text(part.get(field)), _extra(kind, part))
        for number, annotation in enumerate(items(part.get("annotations")) or ()):
            place = {**at, "annotation_index": number, "annotation": annotation}
            yield "response.output_text.annotation.added", place
    yield "response.content_part.done", {**at, "part": part}


def _extra(kind: str, part: Members) -> dict[str, object]:
    """Clients of `output_text` events demand a list of log probabilities; the last event has them all."""
    if kind != "output_text":
        return {}
    logprobs = part.get("logprobs")
    return {"logprobs": logprobs if logprobs is not None and is_set(logprobs) else []}


def _text_steps(
    kind: str, at: Mapping[str, object], field: str, whole: str, extra: Mapping[str, object]
) -> Iterator[_Step]:
    empty: dict[str, object] = {name: [] for name in extra}
    for piece in pieces(whole):
        yield f"{kind}.delta", {**at, "delta": piece, **empty}
    yield f"{kind}.done", {**at, field: whole, **extra}


def _reasoning_steps(at: Mapping[str, object], item: Members) -> Iterator[_Step]:
    for index, raw in enumerate(items(item.get("summary")) or ()):
        part, place = members(raw), {**at, "summary_index": index}
        opened = {**part, "text": ""}
        yield "response.reasoning_summary_part.added", {**place, "part": opened}
        yield from _text_steps("response.reasoning_summary_text", place, "text", text(part.get("text")), {})
        yield "response.reasoning_summary_part.done", {**place, "part": part}
    yield from _message_steps(at, item)


def _call_steps(at: Mapping[str, object], item: Members) -> Iterator[_Step]:
    name: dict[str, object] = {"name": item["name"]} if "name" in item else {}
    arguments = text(item.get("arguments"))
    for piece in pieces(arguments):
        yield "response.function_call_arguments.delta", {**at, "delta": piece}
    yield "response.function_call_arguments.done", {**at, **name, "arguments": arguments}


def _custom_call_steps(at: Mapping[str, object], item: Members) -> Iterator[_Step]:
    yield from _text_steps("response.custom_tool_call_input", at, "input", text(item.get("input")), {})


_Inner = Callable[[Mapping[str, object], Members], Iterator[_Step]]

_BY_TYPE: Mapping[str, tuple[dict[str, object], _Inner]] = {
    "message": ({"content": []}, _message_steps),
    "reasoning": ({"summary": [], "content": []}, _reasoning_steps),
    "function_call": ({"arguments": ""}, _call_steps),
    "custom_tool_call": ({"input": ""}, _custom_call_steps),
    "image_generation_call": ({"result": None}, _no_steps),
}
"""Item type → its members that are still empty when it opens, and the events between opening and end."""

_PARTS: Mapping[str, tuple[str, str]] = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
}
"""Type of a content part → the middle of its events' names, and the member that holds its text."""
