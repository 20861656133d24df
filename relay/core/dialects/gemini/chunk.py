"""One chunk of an answer, or a whole one, which has the same shape, decoded as far as the relay looks at it.

`strict_chunk` is the hot path: a typed decode that skips everything else, pictures above all. What has
another type than Google's takes the loose path, which keeps what fits. Must not decide anything.
Source: https://ai.google.dev/api/generate-content#generatecontentresponse.
"""

import msgspec

from relay.core.dialects.gemini.usage import Usage, loose_usage
from relay.core.dialects.loose import loose_json, raw_of, text, whole_number

_UNSET = msgspec.UNSET
_Given = msgspec.Raw | msgspec.UnsetType


class Blob(msgspec.Struct, rename="camel", gc=False):
    """Bytes in base64, which are not looked at."""

    mime_type: str = ""


class FunctionCall(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    args: _Given = _UNSET
    partial_args: _Given = _UNSET
    will_continue: bool | None = None
    """Arguments that come in pieces, which Google sends only where they were asked for."""


class Part(msgspec.Struct, rename="camel", gc=False):
    text: str | msgspec.UnsetType | None = _UNSET
    thought: bool | None = None
    thought_signature: _Given = _UNSET
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    executable_code: _Given = _UNSET
    code_execution_result: _Given = _UNSET
    tool_call: _Given = _UNSET
    tool_response: _Given = _UNSET


class Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, rename="camel", gc=False):
    index: int | None = None
    content: Content | None = None
    finish_reason: str | None = None
    grounding_metadata: _Given = _UNSET


class PromptFeedback(msgspec.Struct, rename="camel", gc=False):
    block_reason: str | None = None


class Chunk(msgspec.Struct, rename="camel", gc=False):
    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Usage | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: _Given = _UNSET

    @property
    def is_known(self) -> bool:
        """Something in it belongs to this protocol."""
        return not (
            self.candidates is None
            and self.prompt_feedback is None
            and self.usage_metadata is None
            and self.model_version is None
            and self.response_id is None
        )

    @property
    def blocked(self) -> str:
        """Why the prompt was refused, which is all that is answered then; else empty."""
        feedback = self.prompt_feedback
        if feedback is None or self.candidates:
            return ""
        return feedback.block_reason or ""


strict_chunk = msgspec.json.Decoder(Chunk).decode
"""The hot path: typed. Raises ValueError or RecursionError; `loose_chunk` then takes what fits."""


def loose_chunk(data: str) -> Chunk:
    """Raises `Unreadable`, nothing else."""
    value = loose_json(data)
    candidates = value.get("candidates")
    feedback = value.get("promptFeedback")
    return Chunk(
        candidates=[_loose_candidate(each) for each in candidates] if isinstance(candidates, list) else None,
        prompt_feedback=PromptFeedback(text(feedback.get("blockReason")))
        if isinstance(feedback, dict)
        else None,
        usage_metadata=loose_usage(value.get("usageMetadata")),
        model_version=text(value.get("modelVersion")),
        response_id=text(value.get("responseId")),
        error=msgspec.Raw(b"true") if value.get("error") else _UNSET,
    )


def _loose_candidate(value: object) -> Candidate:
    if not isinstance(value, dict):
        return Candidate()
    content = value.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return Candidate(
        index=whole_number(value.get("index")),
        content=Content([_loose_part(part) for part in parts]) if isinstance(parts, list) else None,
        finish_reason=text(value.get("finishReason")),
        grounding_metadata=_given(value.get("groundingMetadata")),
    )


def _loose_part(value: object) -> Part:
    if not isinstance(value, dict):
        return Part(text=None)
    call, blob = value.get("functionCall"), value.get("inlineData")
    return Part(
        text=text(value["text"]) if "text" in value else _UNSET,
        thought=value.get("thought") is True,
        thought_signature=_given(value.get("thoughtSignature")),
        function_call=_loose_call(call) if isinstance(call, dict) else None,
        inline_data=Blob(text(blob.get("mimeType")) or "") if isinstance(blob, dict) else None,
        executable_code=_given(value.get("executableCode")),
        code_execution_result=_given(value.get("codeExecutionResult")),
        tool_call=_given(value.get("toolCall")),
        tool_response=_given(value.get("toolResponse")),
    )


def _loose_call(value: dict[str, object]) -> FunctionCall:
    return FunctionCall(
        name=text(value.get("name")),
        args=_given(value.get("args")),
        partial_args=_given(value.get("partialArgs")),
        will_continue=True if value.get("willContinue") is True else None,
    )


def _given(value: object) -> _Given:
    return _UNSET if value is None else raw_of(value)
