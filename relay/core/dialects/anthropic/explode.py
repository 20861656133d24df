"""Turns a whole message into the events of the stream that the client asked for. Loses nothing.

Aggregating these events gives the same message again. Must not know timing: all events exist at once.
"""

from collections.abc import Iterator, Mapping

import msgspec

from relay.core.dialects.anthropic.inspector import MESSAGE_STOP
from relay.core.dialects.anthropic.whole import CLIENT_TOOL
from relay.core.dialects.members import Members, answer_members, is_set, items, members, text
from relay.core.dialects.pieces import pieces
from relay.core.sse import encode_event

_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")
_NULL = msgspec.Raw(b"null")


def whole_to_events(body: bytes) -> Iterator[bytes]:
    """The frames, `message_stop` included. Raises ValueError at once when `body` is not such an answer."""
    message = answer_members(body)
    content = items(message.get("content"))
    if content is None:
        raise ValueError("no list of content blocks")
    return _frames(message, list(map(members, content)))


def _frames(message: Members, blocks: list[Members]) -> Iterator[bytes]:
    usage = members(message.get("usage"))
    yield _frame("message_start", message=_opening(message, usage))
    for index, block in enumerate(blocks):
        opening, deltas = _parts(block)
        yield _frame("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)
    end: dict[str, object] = {name: message[name] for name in _AT_THE_END if name in message}
    end["stop_reason"] = _stop_reason(message, blocks)
    yield _frame("message_delta", delta=end, usage=usage)
    yield MESSAGE_STOP


def _frame(kind: str, **fields: object) -> bytes:
    return encode_event(msgspec.json.encode({"type": kind, **fields}), kind)


def _opening(message: Members, usage: Members) -> dict[str, object]:
    """The message before its first block: what is known at its end only is null."""
    opening: dict[str, object] = {**message, "type": "message", "content": []}
    opening.update({name: _NULL for name in _AT_THE_END if name in message})
    opening["usage"] = {**usage, "output_tokens": 0}
    return opening


def _parts(block: Members) -> tuple[Mapping[str, object], list[dict[str, object]]]:
    """How a block starts, and the deltas that make it whole. A kind without deltas starts whole."""
    kind = text(block.get("type"))
    if kind == "text":
        return _text_parts(block)
    if kind == "thinking":
        return _thinking_parts(block)
    if "input" in block:
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": piece} for piece in _input_pieces(block["input"])
        ]
    return block, []


def _text_parts(block: Members) -> tuple[Mapping[str, object], list[dict[str, object]]]:
    deltas: list[dict[str, object]] = [
        {"type": "text_delta", "text": piece} for piece in pieces(text(block.get("text")))
    ]
    opening: dict[str, object] = {**block, "text": ""}
    citations = items(block.get("citations"))
    if citations:
        opening["citations"] = []
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    return opening, deltas


def _thinking_parts(block: Members) -> tuple[Mapping[str, object], list[dict[str, object]]]:
    deltas: list[dict[str, object]] = [
        {"type": "thinking_delta", "thinking": piece} for piece in pieces(text(block.get("thinking")))
    ]
    opening: dict[str, object] = {**block, "thinking": ""}
    if is_set(block.get("signature")):
        opening["signature"] = ""
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return opening, deltas


def _stop_reason(message: Members, blocks: list[Members]) -> str | None:
    """As the upstream says, but for `end_turn` with tool calls: see `repairs`."""
    reason = text(message.get("stop_reason"))
    has_calls = any(text(block.get("type")) == CLIENT_TOOL for block in blocks)
    return CLIENT_TOOL if reason == "end_turn" and has_calls else reason or None


def _input_pieces(raw: msgspec.Raw) -> list[str]:
    given = bytes(raw).decode()
    return [] if given in ("{}", "null") else pieces(given)
