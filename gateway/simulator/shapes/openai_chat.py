"""POST /v1/chat/completions, after OpenAI's API reference (chat object and chat chunk object).

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer, Ask, ToolCall, ToolSpec
from gateway.simulator.frames import DONE, Frame, Part
from gateway.simulator.json_values import (
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    content_text,
    objects,
)
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, fragments, joined
from gateway.simulator.shapes.openai_errors import OpenAIErrors
from gateway.simulator.text import count_tokens


class OpenAIChat(OpenAIErrors):
    """Chat completions: role chunk, one chunk a piece, finish, usage if asked, `[DONE]`."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        body = received.json
        messages = list(objects(body.get("messages")))
        said = [content_text(m.get("content")) for m in messages if m.get("role") == "user"]
        return Ask(
            model=received.model,
            stream=body.get("stream") is True,
            text=said[-1] if said else "",
            prompt_tokens=count_tokens(joined(content_text(m.get("content")) for m in messages)),
            body=body,
            include_usage=as_object(body.get("stream_options")).get("include_usage") is True,
            choices=min(as_count(body.get("n")) or 1, 128),
            max_tokens=as_count(body.get("max_completion_tokens")) or as_count(body.get("max_tokens")),
            tools=tuple(_tool_spec(tool) for tool in objects(body.get("tools"))),
            is_after_tool_result=bool(messages) and messages[-1].get("role") == "tool",
            logprobs=body.get("logprobs") is True,
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form, terminal included."""
        numbers = range(answer.choices)
        frames = [_chunk(answer, Part.PREAMBLE, i, _role_delta(answer)) for i in numbers]
        frames += [
            _chunk(answer, Part.TEXT, i, {"reasoning_content": piece})
            for piece in answer.reasoning
            for i in numbers
        ]
        key = "refusal" if answer.is_refusal else "content"
        frames += [_chunk(answer, Part.TEXT, i, {key: piece}) for piece in answer.pieces for i in numbers]
        frames += [
            _chunk(answer, Part.TOOL, i, {"tool_calls": [call]})
            for call in _call_deltas(answer)
            for i in numbers
        ]
        frames += [_chunk(answer, Part.FINISH, i, {}, str(answer.finish)) for i in numbers]
        if answer.ask.include_usage:
            frames.append(Frame(Part.USAGE, {**_envelope(answer), "choices": [], "usage": usage(answer)}))
        return [*frames, DONE]

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        choices = [
            {
                "index": i,
                "message": _message(answer),
                "logprobs": _logprobs(answer.pieces) if answer.logprobs else None,
                "finish_reason": str(answer.finish),
            }
            for i in range(answer.choices)
        ]
        envelope = {**_envelope(answer), "object": "chat.completion"}
        return Payload(json={**envelope, "choices": choices, "usage": usage(answer)})


def completion_id(answer: Answer) -> str:
    """How all its chunks name the answer."""
    return f"chatcmpl-{answer.id}"


def usage(answer: Answer) -> JsonObject:
    """OpenAI's usage object; every piece is a token."""
    prompt, completion = answer.ask.prompt_tokens, answer.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": min(answer.cached_tokens, prompt), "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens, "audio_tokens": 0},
    }


def _envelope(answer: Answer) -> JsonObject:
    return {
        "id": completion_id(answer),
        "object": "chat.completion.chunk",
        "created": answer.created,
        "model": answer.ask.model,
        "service_tier": "default",
        "system_fingerprint": "fp_simulator",
    }


def _chunk(answer: Answer, part: Part, index: int, delta: JsonObject, finish: str | None = None) -> Frame:
    content = as_text(delta.get("content"))
    logprobs = _logprobs((content,)) if answer.logprobs and content else None
    choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    payload = {**_envelope(answer), "choices": [choice]}
    # OpenAI sends a null usage on every other chunk once usage was asked for.
    return Frame(part, {**payload, "usage": None} if answer.ask.include_usage else payload)


def _role_delta(answer: Answer) -> JsonObject:
    content = None if answer.tool_calls and not answer.pieces else ""
    return {"role": "assistant", "content": content, "refusal": None}


def _call_deltas(answer: Answer) -> list[JsonObject]:
    deltas: list[JsonObject] = []
    for index, call in enumerate(answer.tool_calls):
        if answer.is_tool_call_whole:
            deltas.append({"index": index, **_call(call)})
            continue
        opening = {**_call(call), "function": {"name": call.name, "arguments": ""}}
        deltas.append({"index": index, **opening})
        deltas += [{"index": index, "function": {"arguments": part}} for part in fragments(call.arguments)]
    return deltas


def _call(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _message(answer: Answer) -> JsonObject:
    text = answer.text or None
    message: JsonObject = {
        "role": "assistant",
        "content": None if answer.is_refusal else text,
        "refusal": text if answer.is_refusal else None,
        "annotations": [],
    }
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.tool_calls:
        message["tool_calls"] = [_call(call) for call in answer.tool_calls]
    return message


def _logprobs(pieces: tuple[str, ...]) -> JsonObject:
    content = [
        {"token": piece, "logprob": -0.25, "bytes": list(piece.encode()), "top_logprobs": []}
        for piece in pieces
    ]
    return {"content": content, "refusal": None}


def _tool_spec(tool: JsonObject) -> ToolSpec:
    function = as_object(tool.get("function"))
    return ToolSpec(as_text(function.get("name")) or "tool", as_object(function.get("parameters")))


def choices_of(payload: JsonObject) -> list[JsonObject]:
    """The choices of a chunk or a whole answer, for behaviours that edit them."""
    return [as_object(choice) for choice in as_list(payload.get("choices"))]
