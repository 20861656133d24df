"""POST /v1/messages and /v1/messages/count_tokens, after Anthropic's Messages API and its streaming page.

Must not import: Django, aiohttp.
"""

from dataclasses import replace

import orjson

from gateway.simulator.answer import Answer, Ask, Finish, ToolCall, ToolSpec
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_count, as_object, as_text, content_text, objects
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, fragments, joined
from gateway.simulator.text import count_tokens

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.CONTENT_FILTER: "refusal",
    Finish.TOOL_CALLS: "tool_use",
}


class AnthropicMessages:
    """Messages: numbered content blocks between `message_start` and `message_stop`."""

    newline = b"\n"

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        body = received.json
        messages = list(objects(body.get("messages")))
        said = [
            text for m in messages if m.get("role") == "user" and (text := content_text(m.get("content")))
        ]
        texts = [content_text(body.get("system")), *(content_text(m.get("content")) for m in messages)]
        last_parts = list(objects(messages[-1].get("content"))) if messages else []
        return Ask(
            model=received.model,
            stream=body.get("stream") is True,
            text=said[-1] if said else "",
            prompt_tokens=count_tokens(joined(texts)),
            body=body,
            max_tokens=as_count(body.get("max_tokens")),
            tools=tuple(
                ToolSpec(as_text(tool.get("name")) or "tool", as_object(tool.get("input_schema")))
                for tool in objects(body.get("tools"))
            ),
            is_after_tool_result=any(part.get("type") == "tool_result" for part in last_parts),
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form, terminal included."""
        start = {**_message(answer), "content": [], "stop_reason": None, "usage": _usage(answer, 1)}
        frames = [_event(Part.PREAMBLE, "message_start", message=start)]
        for index, (opening, deltas) in enumerate(_blocks(answer)):
            frames.append(_event(Part.PREAMBLE, "content_block_start", index=index, content_block=opening))
            if index == 0:
                frames.append(_event(Part.PREAMBLE, "ping"))
            frames += [
                _event(part, "content_block_delta", index=index, delta=delta) for part, delta in deltas
            ]
            frames.append(_event(Part.BLOCK_END, "content_block_stop", index=index))
        delta = {"stop_reason": _STOP_REASONS[answer.finish], "stop_sequence": None}
        frames.append(
            _event(
                Part.FINISH, "message_delta", delta=delta, usage={"output_tokens": answer.completion_tokens}
            )
        )
        return [*frames, _event(Part.TERMINAL, "message_stop")]

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        content: list[JsonObject] = []
        if answer.reasoning:
            thinking = "".join(answer.reasoning)
            content.append({"type": "thinking", "thinking": thinking, "signature": "c2ltdWxhdG9y"})
        if answer.pieces:
            content.append({"type": "text", "text": answer.text})
        content += [{**_tool_use(call), "input": _parsed(call.arguments)} for call in answer.tool_calls]
        return Payload(
            json={
                **_message(answer),
                "content": content,
                "stop_reason": _STOP_REASONS[answer.finish],
                "usage": _usage(answer, answer.completion_tokens),
            }
        )

    def error(self, fault: Fault) -> JsonObject:
        """The body of an error answer."""
        details = {"type": _ERROR_TYPES.get(fault.status, "api_error"), "message": fault.message}
        return {"type": "error", "error": details, "request_id": "req_simulator"}

    def error_frame(self, fault: Fault) -> Frame:
        """An error inside a stream: `event: error`."""
        details = {"type": _ERROR_TYPES.get(fault.status, "overloaded_error"), "message": fault.message}
        return _event(Part.ERROR, "error", error=details)


class AnthropicCountTokens(AnthropicMessages):
    """Token counting: one number, never streamed."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        return replace(super().ask(received), stream=False)

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        return Payload(json={"input_tokens": answer.ask.prompt_tokens})


def _message(answer: Answer) -> JsonObject:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.ask.model,
        "stop_sequence": None,
    }


def _usage(answer: Answer, output_tokens: int) -> JsonObject:
    """Anthropic's input count leaves the cached part out."""
    cached = min(answer.cached_tokens, answer.ask.prompt_tokens)
    return {
        "input_tokens": answer.ask.prompt_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def _blocks(answer: Answer) -> list[tuple[JsonObject, list[tuple[Part, JsonObject]]]]:
    blocks: list[tuple[JsonObject, list[tuple[Part, JsonObject]]]] = []
    if answer.reasoning:
        thoughts: list[tuple[Part, JsonObject]] = [
            (Part.TEXT, {"type": "thinking_delta", "thinking": piece}) for piece in answer.reasoning
        ]
        thoughts.append((Part.BLOCK_END, {"type": "signature_delta", "signature": "c2ltdWxhdG9y"}))
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, thoughts))
    if answer.pieces:
        texts: list[tuple[Part, JsonObject]] = [
            (Part.TEXT, {"type": "text_delta", "text": piece}) for piece in answer.pieces
        ]
        blocks.append(({"type": "text", "text": ""}, texts))
    for call in answer.tool_calls:
        parts: list[tuple[Part, JsonObject]] = [
            (Part.TOOL, {"type": "input_json_delta", "partial_json": part})
            for part in fragments(call.arguments)
        ]
        blocks.append(({**_tool_use(call), "input": {}}, parts))
    return blocks


def _tool_use(call: ToolCall) -> JsonObject:
    return {"type": "tool_use", "id": call.id.replace("call_", "toolu_"), "name": call.name}


def _parsed(arguments: str) -> object:
    try:
        parsed: object = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        # Whole messages carry parsed input: broken JSON has no better place than a string.
        return arguments
    return parsed


def _event(part: Part, name: str, /, **fields: object) -> Frame:
    return Frame(part, {"type": name, **fields}, event=name)
