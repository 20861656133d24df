"""Gemini's generateContent, streamGenerateContent, countTokens, embedding and predict (v1 and v1beta).

Must not import: Django, aiohttp.
"""

import base64

import orjson

from gateway.simulator.answer import Answer, Ask, Finish, ToolCall, ToolSpec
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame, Part
from gateway.simulator.json_values import JsonObject, as_count, as_object, as_text, content_text, objects
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import Payload, joined
from gateway.simulator.shapes.images import png
from gateway.simulator.shapes.vectors import vector_of
from gateway.simulator.text import count_tokens

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISHES = {Finish.LENGTH: "MAX_TOKENS", Finish.CONTENT_FILTER: "SAFETY"}

_PARAMETERS = ("parameters", "parametersJsonSchema", "parameters_json_schema")
"""A tool's schema; google-genai spells the last one so."""


class Gemini:
    """Content generation: the verb stands in the path, and there is no terminal event."""

    newline = b"\r\n"  # as Google's servers write it

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        body = received.json
        contents = list(objects(body.get("contents"))) or list(objects([body.get("content")]))
        said = [
            text
            for item in contents
            if item.get("role", "user") == "user" and (text := content_text(item.get("parts")))
        ]
        system = as_object(body.get("systemInstruction") or body.get("system_instruction"))
        config = as_object(body.get("generationConfig") or body.get("generation_config"))
        last_parts = list(objects(contents[-1].get("parts"))) if contents else []
        return Ask(
            model=received.model,
            stream=self._verb == "streamGenerateContent" and received.query.get("alt") == "sse",
            text=said[-1] if said else "",
            prompt_tokens=count_tokens(
                joined(content_text(item.get("parts")) for item in [system, *contents]),
            ),
            body=body,
            choices=min(as_count(config.get("candidateCount")) or 1, 8),
            max_tokens=as_count(config.get("maxOutputTokens")),
            tools=_tool_specs(body),
            is_after_tool_result=any("functionResponse" in part for part in last_parts),
        )

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form. Usage is cumulative and stands on every chunk."""
        frames: list[Frame] = []
        total = answer.completion_tokens
        for number in range(answer.choices):
            for part, content in _parts(answer):
                frames.append(_chunk(answer, part, index=number, content=content, completion=len(frames) + 1))
        finish = _FINISHES.get(answer.finish, "STOP")
        frames += [
            _chunk(answer, Part.FINISH, index=i, content={"text": ""}, completion=total, finish=finish)
            for i in range(answer.choices)
        ]
        return frames

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming; a stream asked for without `alt=sse` is a JSON array."""
        if self._verb == "countTokens":
            return Payload(json={"totalTokens": answer.ask.prompt_tokens})
        if self._verb == "embedContent":
            return Payload(json={"embedding": {"values": vector_of(answer.ask.text)}})
        if self._verb == "batchEmbedContents":
            return Payload(
                json={"embeddings": list(map(_embedded, objects(answer.ask.body.get("requests"))))}
            )
        if self._verb == "predict":
            return Payload(json={"predictions": _pictures(answer.ask.body)})
        if self._verb == "streamGenerateContent":
            chunks = [frame.payload for frame in self.frames(answer)]
            return Payload(content=orjson.dumps(chunks))
        parts = _whole_parts(answer)
        finish = _FINISHES.get(answer.finish, "STOP")
        candidates = [_candidate(i, parts, finish) for i in range(answer.choices)]
        return Payload(json=_body(answer, candidates, answer.completion_tokens))

    def error(self, fault: Fault) -> JsonObject:
        """The body of an error answer (google.rpc.Status in JSON); Google's own reasons are in upper case."""
        status = _STATUSES.get(fault.status, "INTERNAL")
        error: JsonObject = {"code": fault.status, "message": fault.message, "status": status}
        if fault.code and fault.code.isupper():
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": fault.code}
            error["details"] = [{**info, "domain": "googleapis.com"}]
        return {"error": error}

    def error_frame(self, fault: Fault) -> Frame:
        """An error inside a stream: the same object as a chunk."""
        return Frame(Part.ERROR, self.error(fault))


def _embedded(request: JsonObject) -> JsonObject:
    return {"values": vector_of(content_text(as_object(request.get("content")).get("parts")))}


def _pictures(body: JsonObject) -> list[JsonObject]:
    count = min(as_count(as_object(body.get("parameters")).get("sampleCount")) or 1, 8)
    pictures = (base64.b64encode(png(shade)).decode() for shade in range(count))
    return [{"mimeType": "image/png", "bytesBase64Encoded": picture} for picture in pictures]


def _tool_specs(body: JsonObject) -> tuple[ToolSpec, ...]:
    declared = (
        spec
        for tool in objects(body.get("tools"))
        for spec in objects(tool.get("functionDeclarations") or tool.get("function_declarations"))
    )
    return tuple(
        ToolSpec(
            as_text(spec.get("name")) or "tool",
            as_object(next(filter(None, map(spec.get, _PARAMETERS)), None)),
        )
        for spec in declared
    )


def _parts(answer: Answer) -> list[tuple[Part, JsonObject]]:
    parts: list[tuple[Part, JsonObject]] = []
    parts += [(Part.TEXT, {"text": piece, "thought": True}) for piece in answer.reasoning]
    parts += [(Part.TEXT, {"text": piece}) for piece in answer.pieces]
    parts += [(Part.TOOL, _function_call(call)) for call in answer.tool_calls]
    return parts


def _whole_parts(answer: Answer) -> list[JsonObject]:
    parts: list[JsonObject] = []
    if answer.reasoning:
        parts.append({"text": "".join(answer.reasoning), "thought": True})
    if answer.pieces:
        parts.append({"text": answer.text})
    return parts + [_function_call(call) for call in answer.tool_calls]


def _function_call(call: ToolCall) -> JsonObject:
    try:
        arguments: object = orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        arguments = call.arguments
    return {"functionCall": {"name": call.name, "args": arguments}}


def _candidate(index: int, parts: list[JsonObject], finish: str | None) -> JsonObject:
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"}, "index": index}
    return {**candidate, "finishReason": finish} if finish else candidate


def _body(answer: Answer, candidates: list[JsonObject], completion: int) -> JsonObject:
    prompt, thoughts = answer.ask.prompt_tokens, min(answer.reasoning_tokens, completion)
    usage: JsonObject = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion - thoughts,
        "totalTokenCount": prompt + completion,
    }
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if answer.cached_tokens:
        usage["cachedContentTokenCount"] = min(answer.cached_tokens, prompt)
    return {
        "candidates": candidates,
        "usageMetadata": usage,
        "modelVersion": answer.ask.model,
        "responseId": answer.id,
    }


def _chunk(
    answer: Answer, part: Part, *, index: int, content: JsonObject, completion: int, finish: str | None = None
) -> Frame:
    return Frame(part, _body(answer, [_candidate(index, [content], finish)], completion))
