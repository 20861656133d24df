"""What only Anthropic's shape has, or what those who imitate it get wrong. Other shapes just echo."""

from collections.abc import Callable
from dataclasses import replace

from gateway.simulator.exchange import Exchange
from gateway.simulator.faults import fault_for
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_object, objects
from gateway.simulator.registry import behaviour

_CACHE: JsonObject = {
    "input_tokens": 7,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 100,
    "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60},
}
_CACHE_TOTALS: JsonObject = {name: value for name, value in _CACHE.items() if name != "cache_creation"}
_SEARCH: JsonObject = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
_QUERY = '{"query":"sluice"}'
_PAGE: JsonObject = {
    "type": "web_search_result",
    "url": "https://example.com/",
    "title": "Sluices",
    "encrypted_content": "c2ltdWxhdG9y",
    "page_age": None,
}
_FOUND: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [_PAGE]}
_CITATION: JsonObject = {
    "type": "web_search_result_location",
    "url": "https://example.com/",
    "title": "Sluices",
    "encrypted_index": "c2ltdWxhdG9y",
    "cited_text": "A gate that holds water.",
}
_REDACTED: JsonObject = {"type": "redacted_thinking", "data": "c2ltdWxhdG9y"}


def _is_anthropics(payload: JsonObject | None) -> bool:
    return payload is not None and (payload.get("type") in _EVENTS or payload.get("type") == "message")


_EVENTS = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
    | {"message_stop", "ping"}
)


def _edit_usage(frames: list[Frame], edit: Callable[[JsonObject, bool], JsonObject]) -> list[Frame]:
    """edit: (usage, whether it is the last) → usage."""
    edited = []
    for frame in frames:
        payload = frame.payload
        if payload is not None and payload.get("type") == "message_start":
            message = as_object(payload.get("message"))
            usage = edit(as_object(message.get("usage")), False)
            payload = {**payload, "message": {**message, "usage": usage}}
        elif payload is not None and payload.get("type") == "message_delta":
            payload = {**payload, "usage": edit(as_object(payload.get("usage")), True)}
        edited.append(replace(frame, payload=payload))
    return edited


@behaviour("no-event-lines", "Events without their `event:` lines.")
async def no_event_lines(exchange: Exchange) -> None:
    """Anthropic's SDKs skip them in silence."""

    def edit(frames: list[Frame]) -> list[Frame]:
        return [replace(frame, event=None) if _is_anthropics(frame.payload) else frame for frame in frames]

    await exchange.respond(edit_frames=edit)


@behaviour("usage-cache-writes", "Most of the prompt came from the cache or went to it, for 5 min and 1 h.")
async def usage_cache_writes(exchange: Exchange) -> None:
    """The last usage repeats the totals, which are not to be added up."""

    def edit(usage: JsonObject, is_last: bool) -> JsonObject:
        return {**usage, **(_CACHE_TOTALS if is_last else _CACHE)}

    def edit_whole(whole: JsonObject) -> JsonObject:
        if whole.get("type") != "message":
            return whole
        return {**whole, "usage": edit(as_object(whole.get("usage")), False)}

    await exchange.respond(edit_frames=lambda frames: _edit_usage(frames, edit), edit_whole=edit_whole)


@behaviour("usage-zero-at-end", "The last usage says 0 input tokens, the first the truth.")
async def usage_zero_at_end(exchange: Exchange) -> None:
    """A prompt cannot lose its tokens. Whole: an ordinary answer."""

    def edit(usage: JsonObject, is_last: bool) -> JsonObject:
        return {**usage, "input_tokens": 0} if is_last else usage

    await exchange.respond(edit_frames=lambda frames: _edit_usage(frames, edit))


@behaviour("server-tool", "The upstream searches the web itself, then answers with a citation.")
async def server_tool(exchange: Exchange) -> None:
    """Content blocks of kinds that only this API has."""

    def edit(frames: list[Frame]) -> list[Frame]:
        searched = [
            *_block(0, _SEARCH, {"type": "input_json_delta", "partial_json": _QUERY}),
            *_block(1, _FOUND),
        ]
        return _with_blocks(frames, searched, 2, {"type": "citations_delta", "citation": _CITATION})

    def edit_whole(whole: JsonObject) -> JsonObject:
        if whole.get("type") != "message":
            return whole
        search = {**_SEARCH, "input": {"query": "sluice"}}
        text = [{**block, "citations": [_CITATION]} for block in objects(whole.get("content"))]
        return {**whole, "content": [search, _FOUND, *text]}

    await exchange.respond(edit_frames=edit, edit_whole=edit_whole)


@behaviour("redacted-thinking", "Thoughts come encrypted, in a block without deltas.")
async def redacted_thinking(exchange: Exchange) -> None:
    """A block that is whole at its start."""

    def edit(frames: list[Frame]) -> list[Frame]:
        return _with_blocks(frames, _block(0, _REDACTED), 1)

    def edit_whole(whole: JsonObject) -> JsonObject:
        if whole.get("type") != "message":
            return whole
        return {**whole, "content": [_REDACTED, *objects(whole.get("content"))]}

    await exchange.respond(edit_frames=edit, edit_whole=edit_whole)


@behaviour("credit-too-low", "400 in which Anthropic says that the operator's account is empty.")
async def credit_too_low(exchange: Exchange) -> None:
    """Nothing that a tenant did, or should hear of."""
    message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
    await exchange.send_error(fault_for(400, message))


def _block(index: int, opening: JsonObject, *deltas: JsonObject) -> list[Frame]:
    return [
        _event(Part.PREAMBLE, "content_block_start", index=index, content_block=opening),
        *(_event(Part.TOOL, "content_block_delta", index=index, delta=delta) for delta in deltas),
        _event(Part.BLOCK_END, "content_block_stop", index=index),
    ]


def _with_blocks(frames: list[Frame], blocks: list[Frame], count: int, *last: JsonObject) -> list[Frame]:
    """`count` blocks in front of the answer's own, which move up; last: deltas at the end of each."""
    if not frames or frames[0].payload is None or frames[0].payload.get("type") != "message_start":
        return frames
    moved = [frames[0], *blocks]
    for frame in frames[1:]:
        payload = frame.payload or {}
        if "index" not in payload:
            moved.append(frame)
            continue
        index = _index(payload) + count
        if payload.get("type") == "content_block_stop":
            moved += [_event(Part.TEXT, "content_block_delta", index=index, delta=delta) for delta in last]
        moved.append(replace(frame, payload={**payload, "index": index}))
    return moved


def _index(payload: JsonObject) -> int:
    index = payload.get("index")
    return index if isinstance(index, int) else 0


def _event(part: Part, name: str, /, **fields: object) -> Frame:
    return Frame(part, {"type": name, **fields}, event=name)
