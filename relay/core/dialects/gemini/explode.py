"""Turns a whole answer into the chunks of the stream that the client asked for. Loses nothing.

Aggregating these chunks gives the same answer again. Must not know timing: all chunks exist at once.
"""

from collections.abc import Iterator

import msgspec

from relay.core.dialects.gemini.framing import ArrayWriter
from relay.core.dialects.gemini.repairs import escaped
from relay.core.dialects.members import Members, answer_members, items, members, text
from relay.core.dialects.pieces import pieces
from relay.core.sse import encode_event

_ON_EACH = ("modelVersion", "responseId", "createTime")
_AT_THE_END = frozenset({"content"})


def whole_to_events(body: bytes, *, is_array: bool) -> Iterator[bytes]:
    """The events, or the elements of an array, its end included. Raises ValueError at once for no answer."""
    answer = answer_members(_on_one_line(body))
    candidates = items(answer.get("candidates"))
    if candidates is None and "promptFeedback" not in answer:
        raise ValueError("no candidates")
    chunks = _chunks(answer, list(map(members, candidates or ())))
    return _array(chunks) if is_array else map(encode_event, map(escaped, chunks))


def _on_one_line(body: bytes) -> bytes:
    """Google writes answers over many lines. What cannot be formatted is as it was: see `answer_members`."""
    try:
        return msgspec.json.format(body, indent=-1)
    except msgspec.DecodeError:
        return body


def _array(chunks: Iterator[bytes]) -> Iterator[bytes]:
    array = ArrayWriter()
    for chunk in chunks:
        yield array.element(chunk)
    yield array.end()


def _chunks(answer: Members, candidates: list[Members]) -> Iterator[bytes]:
    on_each = {name: answer[name] for name in _ON_EACH if name in answer}
    for candidate in candidates:
        for piece in _pieces_of(candidate):
            yield msgspec.json.encode({"candidates": [piece], **on_each})
    ends = [_end_of(candidate) for candidate in candidates]
    last: dict[str, object] = {"candidates": ends} if candidates else {}
    yield msgspec.json.encode({**answer, **last})


def _pieces_of(candidate: Members) -> Iterator[dict[str, object]]:
    """Its parts, one each, long texts in several."""
    content = members(candidate.get("content"))
    index = {"index": candidate["index"]} if "index" in candidate else {}
    beside = {name: member for name, member in content.items() if name != "parts"}
    for part in items(content.get("parts")) or ():
        for piece in _pieces_of_part(part):
            yield {"content": {"parts": [piece], **beside}, **index}


def _pieces_of_part(raw: msgspec.Raw) -> Iterator[object]:
    """A signature belongs to a part as a whole and stays with its text."""
    part = members(raw)
    words = text(part.get("text"))
    if not words or part.keys() - {"text", "thought"}:
        yield raw
        return
    for piece in pieces(words):
        yield {**part, "text": piece}


def _end_of(candidate: Members) -> dict[str, object]:
    """All but the parts: why it ended, what it cites."""
    content = members(candidate.get("content"))
    end: dict[str, object] = {name: member for name, member in candidate.items() if name not in _AT_THE_END}
    if "content" in candidate:
        beside = {name: member for name, member in content.items() if name != "parts"}
        end = {"content": {"parts": [{"text": ""}], **beside}, **end}
    return end
