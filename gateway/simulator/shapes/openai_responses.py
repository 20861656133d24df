"""POST /v1/responses and /v1/responses/input_tokens, after OpenAI's Responses API and its streaming events.

Must not import: Django, aiohttp.
"""

from dataclasses import replace

from gateway.simulator.answer import Answer, Ask, Finish, ToolCall, ToolSpec
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_count, as_object, as_text, content_text, objects
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, fragments, joined
from gateway.simulator.shapes.openai_errors import OpenAIErrors
from gateway.simulator.text import count_tokens


class OpenAIResponses(OpenAIErrors):
    """Responses: every event named, typed and numbered by `sequence_number`."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        body = received.json
        given = body.get("input")
        items = list(objects(given))
        said = [content_text(item.get("content")) for item in items if item.get("role") == "user"]
        everything = [content_text(item.get("content")) for item in items]
        text = given if isinstance(given, str) else (said[-1] if said else "")
        instructions = as_text(body.get("instructions"))
        return Ask(
            model=received.model,
            stream=body.get("stream") is True,
            text=text,
            prompt_tokens=count_tokens(joined([instructions, *(everything or [text])])),
            body=body,
            max_tokens=as_count(body.get("max_output_tokens")),
            tools=tuple(
                ToolSpec(as_text(tool.get("name")) or "tool", as_object(tool.get("parameters")))
                for tool in objects(body.get("tools"))
                if tool.get("type") == "function"
            ),
            is_after_tool_result=bool(items) and items[-1].get("type") == "function_call_output",
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form, terminal included."""
        opening = response_object(answer, status="in_progress", items=[])
        frames = [
            _event(Part.PREAMBLE, "response.created", response=opening),
            _event(Part.PREAMBLE, "response.in_progress", response=opening),
        ]
        items = _items(answer)
        for index, item in enumerate(items):
            frames += _item_frames(answer, index, item)
        final = response_object(answer, status=_status(answer), items=items)
        frames.append(_event(Part.FINISH, f"response.{_status(answer)}", response=final))
        return _numbered(frames)

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        return Payload(json=response_object(answer, status=_status(answer), items=_items(answer)))

    def error_frame(self, fault: Fault) -> Frame:
        """An error inside a stream: the event named `error`; whoever sends it later numbers it anew."""
        details: JsonObject = {
            "code": fault.code or fault.type,
            "message": fault.message,
            "param": fault.param,
        }
        return _event(Part.ERROR, "error", **details, sequence_number=0)


class OpenAIInputTokens(OpenAIResponses):
    """Token counting: one number, never streamed."""

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        return replace(super().ask(received), stream=False)

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        count = answer.ask.prompt_tokens
        return Payload(json={"object": "response.input_tokens", "input_tokens": count})


def response_object(answer: Answer, *, status: str, items: list[JsonObject]) -> JsonObject:
    """The response object; usage is null until the end."""
    is_final = status != "in_progress"
    reasons = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}
    details = {"reason": reasons.get(answer.finish)} if status == "incomplete" else None
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": details,
        "instructions": answer.ask.body.get("instructions"),
        "max_output_tokens": answer.ask.max_tokens,
        "model": answer.ask.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": answer.ask.body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": answer.ask.body.get("store") is not False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": answer.ask.body.get("tool_choice", "auto"),
        "tools": answer.ask.body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(answer) if is_final else None,
        "user": None,
        "metadata": answer.ask.body.get("metadata", {}),
    }


def _status(answer: Answer) -> str:
    return "incomplete" if answer.finish in {Finish.LENGTH, Finish.CONTENT_FILTER} else "completed"


def _usage(answer: Answer) -> JsonObject:
    prompt, completion = answer.ask.prompt_tokens, answer.completion_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": min(answer.cached_tokens, prompt)},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": prompt + completion,
    }


def _items(answer: Answer) -> list[JsonObject]:
    items: list[JsonObject] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": "".join(answer.reasoning)}]
        items.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary})
    if answer.pieces:
        items.append(_message(answer, "completed", [_content(answer, answer.text)]))
    items += [_call_item(call, "completed", call.arguments) for call in answer.tool_calls]
    return items


def _message(answer: Answer, status: str, content: list[JsonObject]) -> JsonObject:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _content(answer: Answer, text: str) -> JsonObject:
    if answer.is_refusal:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: ToolCall, status: str, arguments: str) -> JsonObject:
    return {
        "id": f"fc_{call.id.removeprefix('call_')}",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": call.id,
        "name": call.name,
    }


def _item_frames(answer: Answer, index: int, item: JsonObject) -> list[Frame]:
    at: JsonObject = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        started, middle = _message(answer, "in_progress", []), _text_frames(answer, at)
    elif item["type"] == "reasoning":
        started, middle = {**item, "summary": []}, _reasoning_frames(answer, at)
    else:
        started, middle = {**item, "status": "in_progress", "arguments": ""}, _call_frames(item, at)
    opening = _event(Part.PREAMBLE, "response.output_item.added", output_index=index, item=started)
    closing = _event(Part.BLOCK_END, "response.output_item.done", output_index=index, item=item)
    return [opening, *middle, closing]


def _text_frames(answer: Answer, at: JsonObject) -> list[Frame]:
    kind = "refusal" if answer.is_refusal else "output_text"
    field = "refusal" if answer.is_refusal else "text"
    at = {**at, "content_index": 0}
    extra: JsonObject = {} if answer.is_refusal else {"logprobs": []}
    return [
        _event(Part.PREAMBLE, "response.content_part.added", **at, part=_content(answer, "")),
        *(_event(Part.TEXT, f"response.{kind}.delta", **at, delta=piece, **extra) for piece in answer.pieces),
        _event(Part.BLOCK_END, f"response.{kind}.done", **at, **{field: answer.text}, **extra),
        _event(Part.BLOCK_END, "response.content_part.done", **at, part=_content(answer, answer.text)),
    ]


def _reasoning_frames(answer: Answer, at: JsonObject) -> list[Frame]:
    at = {**at, "summary_index": 0}
    text, name = "".join(answer.reasoning), "response.reasoning_summary_text"
    empty, part = {"type": "summary_text", "text": ""}, {"type": "summary_text", "text": text}
    return [
        _event(Part.PREAMBLE, "response.reasoning_summary_part.added", **at, part=empty),
        *(_event(Part.TEXT, f"{name}.delta", **at, delta=piece) for piece in answer.reasoning),
        _event(Part.BLOCK_END, f"{name}.done", **at, text=text),
        _event(Part.BLOCK_END, "response.reasoning_summary_part.done", **at, part=part),
    ]


def _call_frames(item: JsonObject, at: JsonObject) -> list[Frame]:
    arguments, name = as_text(item["arguments"]), "response.function_call_arguments"
    deltas = [_event(Part.TOOL, f"{name}.delta", **at, delta=part) for part in fragments(arguments)]
    return [*deltas, _event(Part.BLOCK_END, f"{name}.done", **at, name=item["name"], arguments=arguments)]


def _event(part: Part, name: str, /, **fields: object) -> Frame:
    return Frame(part, {"type": name, **fields}, event=name)


def _numbered(frames: list[Frame]) -> list[Frame]:
    return [
        Frame(frame.part, {**(frame.payload or {}), "sequence_number": number}, frame.event)
        for number, frame in enumerate(frames)
    ]
