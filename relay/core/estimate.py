"""Token usage where the upstream reported none, or not all: counted from what was sent and what arrived.

The counter is handed in (`count`: text → tokens); nothing here knows a tokenizer or money. Prompts are
walked whatever their dialect: every string counts but data URLs, ids and binary members; a picture, file or
audio part counts flat.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from relay.core.usage import TokenUsage

MEDIA_TOKENS = 1_000
"""Flat for each picture, file or audio part of a prompt: about what a detailed 1024 px picture takes."""

RECEIVED_TEXT_MAX = 256 * 1024
"""Characters of an answer that are kept for counting; beyond it the ratio so far is carried on."""

PROMPT_TEXT_MAX = 1024 * 1024
"""Characters of a prompt that are counted; beyond it the ratio so far is carried on."""

METHOD = "o200k"
BYTES_PER_TOKEN = 3
"""For bounds, where counting would take too long: real prompts have 3 to 5."""

_MEDIA_BYTES = MEDIA_TOKENS * BYTES_PER_TOKEN
_MEDIA_DATA = re.compile(
    rb'"(?:data|url|file_data|image_url|image|b64_json|bytesBase64Encoded)"\s*:\s*"'
    rb"(?:data:[^\",]{0,200},)?[A-Za-z0-9+/_\\-]{64}"
)
"""How a picture, sound or document begins in JSON, whatever the dialect: a slash may be escaped."""

_BINARY_MEMBERS = frozenset({"data", "url", "file_data", "image_url", "fileUri", "file_uri", "b64_json"})
_SILENT_MEMBERS = frozenset(
    {"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "model", "detail", "status"}
    | {"finish_reason", "stop_reason", "stop_sequence", "finishReason", "signature", "encrypted_content"}
    | {"mimeType", "mime_type", "taskType", "task_type", "thoughtSignature", "thought_signature"}
)
_MEDIA_TYPES = frozenset(
    {"image", "image_url", "input_image", "input_file", "input_audio", "file", "document", "audio"}
)
_MEDIA_MEMBERS = ("inlineData", "inline_data", "fileData", "file_data")
_PROMPT_MEMBERS = (
    "messages", "input", "prompt", "system", "instructions", "contents", "systemInstruction",
    "system_instruction", "content", "requests", "instances", "tools", "functions", "response_format", "text",
    "suffix", "query", "documents",
)  # fmt: skip
_ANSWER_MEMBERS = ("choices", "content", "output", "candidates")

Count = Callable[[str], int]


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What an estimate can rest on. Kept in memory until the request was settled, never recorded.

    prompt: the request's body. received: text, reasoning and tool arguments of the attempt that answered
    or was running last, at most `RECEIVED_TEXT_MAX` characters of `received_size`. output_limit: tokens
    the client allowed in all (n × max_tokens); 0 = not said.
    """

    prompt: bytes = b""
    received: str = ""
    received_size: int = 0
    output_limit: int = 0


NO_EVIDENCE = Evidence()
_PARTS_JOINED = 1_024


class ReceivedText:
    """The text of an answer as it arrives, for counting; `size` is all of it, in characters."""

    __slots__ = ("_kept", "_parts", "size")

    def __init__(self) -> None:
        self.size = 0
        self._kept = 0
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        self.size += len(text)
        if self._kept < RECEIVED_TEXT_MAX:
            self._kept += len(text)
            self._parts.append(text)
            if len(self._parts) > _PARTS_JOINED:
                self._parts = ["".join(self._parts)]

    @property
    def text(self) -> str:
        """What was kept, at most `RECEIVED_TEXT_MAX` characters."""
        return "".join(self._parts)[:RECEIVED_TEXT_MAX]


@dataclass(frozen=True, slots=True)
class PromptText:
    """texts: what would be tokenized; media: parts that count flat."""

    text: str
    media: int


def prompt_text(body: bytes) -> PromptText:
    """Never raises; what is not JSON has no text."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return PromptText("", 0)
    if not isinstance(value, dict):
        return PromptText("", 0)
    texts: list[str] = []
    media = 0
    for part in _parts([value[name] for name in _PROMPT_MEMBERS if name in value]):
        if part is None:
            media += 1
        else:
            texts.append(part)
    return PromptText("\n".join(texts), media)


def answer_text(body: bytes) -> str:
    """What a whole answer says, for one that came without usage. Never raises."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    found = [value[name] for name in _ANSWER_MEMBERS if name in value]
    return "\n".join(part for part in _parts(found) if part)


def prompt_size(body: bytes) -> int:
    """Bytes of a JSON body, each picture, sound or document in base64 flat: for `input_bound`.

    A search, as decoding once more would take longer: a millisecond or two for a megabyte of text.
    """
    size, at = len(body), 0
    if size <= _MEDIA_BYTES:
        return size
    while begun := _MEDIA_DATA.search(body, at):
        at = body.find(b'"', begun.end())
        if at < 0:
            break
        if body.find(b" ", begun.end(), at) < 0:  # text has one
            size += _MEDIA_BYTES - (at - begun.start())
    return size


def input_bound(prompt_bytes: int) -> int:
    """At most so many tokens, all but surely, of a prompt of so many bytes of JSON."""
    return prompt_bytes // BYTES_PER_TOKEN


def filled(usage: TokenUsage | None, evidence: Evidence, count: Count) -> TokenUsage:
    """The usage with input and output, as far as either is missing, counted."""
    known = usage or TokenUsage()
    if known.input is None:
        prompt = prompt_text(evidence.prompt)
        tokens = counted(prompt.text, len(prompt.text), PROMPT_TEXT_MAX, count)
        known = _with(known, input=tokens + prompt.media * MEDIA_TOKENS)
    if known.output is None:
        tokens = counted(evidence.received, evidence.received_size, RECEIVED_TEXT_MAX, count)
        known = _with(known, output=tokens)
    return known


def counted(text: str, size: int, limit: int, count: Count) -> int:
    """Tokens of a text of `size` characters, of which `text` (or its first `limit`) is at hand."""
    sample = text[:limit]
    if not sample:
        return -(-size // BYTES_PER_TOKEN)
    tokens = count(sample)
    return tokens if size <= len(sample) else -(-tokens * size // len(sample))


def _with(usage: TokenUsage, **parts: int) -> TokenUsage:
    return msgspec.structs.replace(usage, **parts)


def _parts(values: list[object]) -> Iterator[str | None]:
    """Strings to count; None for each media part. Iterative: depth is the client's choice."""
    stack: list[object] = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if not value.startswith("data:"):
                yield value
        elif isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, dict):
            if _is_media(value):
                yield None
            stack.extend(
                member
                for name, member in reversed(value.items())
                if name not in _SILENT_MEMBERS and not (name in _BINARY_MEMBERS and _is_binary(member))
            )


def _is_media(part: dict[str, object]) -> bool:
    """By its type, or as Gemini's parts are, in either spelling of their members."""
    kind = part.get("type")  # in a tool's schema a list of types
    if isinstance(kind, str) and kind in _MEDIA_TYPES:
        return True
    return any(isinstance(part.get(name), dict) for name in _MEDIA_MEMBERS)


def _is_binary(member: object) -> bool:
    """A long string without spaces, or an address: nothing a model reads as text."""
    if isinstance(member, dict):
        return False
    return not isinstance(member, str) or " " not in member


__all__ = [
    "BYTES_PER_TOKEN", "MEDIA_TOKENS", "METHOD", "NO_EVIDENCE", "RECEIVED_TEXT_MAX", "Count", "Evidence",
    "PromptText", "ReceivedText", "answer_text", "filled", "input_bound", "prompt_size", "prompt_text",
]  # fmt: skip
