"""Turns a whole answer into the events of the stream that the client asked for. Loses nothing.

Aggregating these events gives the same answer again. Must not know timing: all events exist at once.
"""

from collections.abc import Iterator, Mapping

import msgspec

from relay.core.dialects.base import Ask
from relay.core.dialects.members import Members, answer_members
from relay.core.dialects.pieces import pieces
from relay.core.sse import DONE, encode_event
from relay.core.tool_calls import are_whole_arguments

_TEXTS = ("reasoning_content", "reasoning", "content", "refusal")
_ON_EVERY_CHUNK = ("id", "created", "model", "system_fingerprint", "service_tier")
_OBJECT = "chat.completion.chunk"

_read_members = msgspec.json.Decoder(Members).decode
_read_items = msgspec.json.Decoder(list[Members] | None).decode
_read_text = msgspec.json.Decoder(str).decode
_read_index = msgspec.json.Decoder(int).decode


def whole_to_events(body: bytes, ask: Ask) -> Iterator[bytes]:
    """The frames, `[DONE]` included. Raises ValueError at once when `body` is not such an answer."""
    members = answer_members(body)
    choices = _read_items(members.get("choices", msgspec.Raw(b"null"))) or []
    deltas = [(_index(choice, position), list(_deltas(choice))) for position, choice in enumerate(choices)]
    return _frames(members, deltas, include_usage=ask.include_usage)


_Delta = dict[str, object]


def _frames(
    members: Members, choices: list[tuple[int, list[_Delta]]], *, include_usage: bool
) -> Iterator[bytes]:
    head: dict[str, object] = {name: members[name] for name in _ON_EVERY_CHUNK if name in members}
    head["object"] = _OBJECT
    once = {name: value for name, value in members.items() if name not in (*head, "choices", "usage")}
    for index, deltas in choices:
        for delta in deltas:
            yield _frame({**head, **once, "choices": [{"index": index, **delta}]})
            once = {}
    usage = members.get("usage")
    if include_usage and usage is not None and bytes(usage) != b"null":
        yield _frame({**head, "choices": [], "usage": usage})
    yield DONE


def _frame(chunk: Mapping[str, object]) -> bytes:
    return encode_event(msgspec.json.encode(chunk))


def _deltas(choice: Members) -> Iterator[_Delta]:
    """The choice's events, each as its members beside `index`."""
    message = _read_members(choice.get("message", msgspec.Raw(b"{}")))
    texts = {name: text for name in _TEXTS if (text := _string(message.get(name))) is not None}
    calls = _tool_calls(message)
    first: dict[str, object] = {"role": msgspec.Raw(b'"assistant"')}
    first.update({name: value for name, value in message.items() if name != "tool_calls"})
    first.update(dict.fromkeys(texts, ""))
    yield _plain(first)
    logprobs = choice.get("logprobs")
    for name, text in texts.items():
        for piece in pieces(text):
            delta = _plain({name: piece})
            if logprobs is not None and name in ("content", "refusal"):
                delta["logprobs"] = logprobs
                logprobs = None
            yield delta
    for number, call in enumerate(calls):
        yield from _call_deltas(number, call)
    last: dict[str, object] = {
        name: value for name, value in choice.items() if name not in ("index", "message", "logprobs")
    }
    if logprobs is not None:
        last["logprobs"] = logprobs
    yield {"delta": {}, **last, "finish_reason": _finish_reason(choice, calls)}


def _plain(delta: dict[str, object]) -> _Delta:
    return {"delta": delta, "finish_reason": None}


def _call_deltas(number: int, call: Members) -> Iterator[_Delta]:
    first: dict[str, object] = {"index": number}
    first.update({name: value for name, value in call.items() if name not in ("index", "function")})
    function = _read_members(call["function"]) if "function" in call else {}
    arguments = _string(function.get("arguments"))
    if function:
        first["function"] = {**function, **({} if arguments is None else {"arguments": ""})}
    yield _plain({"tool_calls": [first]})
    for piece in pieces(arguments or ""):
        yield _plain({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})


def _tool_calls(message: Members) -> list[Members]:
    raw = message.get("tool_calls")
    return (_read_items(raw) or []) if raw is not None else []


def _finish_reason(choice: Members, calls: list[Members]) -> str | None:
    """As the upstream says, but for `stop` after whole tool calls: see `repairs`."""
    reason = _string(choice.get("finish_reason")) or None
    if reason == "stop" and calls and all(map(_is_valid_call, calls)):
        return "tool_calls"
    return reason


def _is_valid_call(call: Members) -> bool:
    function = _read_members(call["function"]) if "function" in call else {}
    return bool(_string(function.get("name"))) and are_whole_arguments(
        _string(function.get("arguments")) or ""
    )


def _index(choice: Members, position: int) -> int:
    try:
        return _read_index(choice["index"])
    except (KeyError, msgspec.MsgspecError):
        return position


def _string(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    try:
        return _read_text(raw)
    except msgspec.MsgspecError:
        return None
