"""Reads whole answers: generated content, vectors, pictures; an error inside a 200.

Must not build Python objects of vectors and pictures.
"""

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID, UpstreamError, WholeAnswer
from relay.core.dialects.counts import USAGE_ABSURD
from relay.core.dialects.gemini.chunk import Chunk, loose_chunk, strict_chunk
from relay.core.dialects.gemini.inspector import is_picture, is_sound, says_something
from relay.core.dialects.gemini.usage import AbsurdUsage, UsageSoFar, reported
from relay.core.dialects.loose import Unreadable
from relay.core.dialects.members import Members, answer_members, is_set, items, value
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage

_UNSET = msgspec.UNSET


class _Picture(msgspec.Struct, rename="camel", gc=False):
    mime_type: str = ""
    bytes_base64_encoded: msgspec.Raw | msgspec.UnsetType = _UNSET


_read_picture = msgspec.json.Decoder(_Picture).decode


def inspect_whole(body: bytes) -> WholeAnswer:
    """Raises ValueError when the body is not a JSON object, or neither an answer nor an error.

    An answer has candidates, or says why the prompt was blocked. A list of none without any usage is no
    answer: another channel may do better.
    """
    chunk = _chunk(body)
    if chunk is None or chunk.error is not _UNSET or not chunk.is_known:
        found = find_error(value(body))
        if found is not None:
            return WholeAnswer(error=found)
    if chunk is None or not (chunk.blocked or chunk.candidates or _reports_work(chunk)):
        raise ValueError("no candidates")
    return _answer(chunk)


def inspect_vectors(body: bytes) -> WholeAnswer:
    """Raises ValueError when there is no vector and no error. Vectors are no output to be charged."""
    found = _members_or_error(body)
    if isinstance(found, UpstreamError):
        return WholeAnswer(error=found)
    if not is_set(found.get("embedding")) and items(found.get("embeddings")) is None:
        raise ValueError("no vectors")
    usage = reported(found.get("usageMetadata"))
    tokens = usage.tokens or TokenUsage()
    return WholeAnswer(usage=TokenUsage(input=tokens.input, output=0), soft_errors=usage.soft_errors)


def inspect_pictures(body: bytes) -> WholeAnswer:
    """Of `predict`: the pictures are what is paid. Raises ValueError when it is no such answer."""
    found = _members_or_error(body)
    if isinstance(found, UpstreamError):
        return WholeAnswer(error=found)
    predictions = items(found.get("predictions"))
    if predictions is None and found:  # none at all, `{}`, is how the API says that all were filtered
        raise ValueError("no predictions")
    return WholeAnswer(usage=TokenUsage(output=0, images=sum(map(_is_picture, predictions or ()))))


def _answer(chunk: Chunk) -> WholeAnswer:
    candidates = chunk.candidates or []
    parts = [part for each in candidates if each.content is not None for part in each.content.parts or ()]
    usage = UsageSoFar()
    usage.images = sum(map(is_picture, parts))
    soft_errors: tuple[str, ...] = ()
    if chunk.usage_metadata is not None:
        usage.add(chunk.usage_metadata)
        soft_errors = (USAGE_ABSURD,) if isinstance(chunk.usage_metadata, AbsurdUsage) else ()
    if not all(part.function_call is None or is_sound(part.function_call) for part in parts):
        soft_errors = (*soft_errors, TOOL_CALL_INVALID)
    reasons = [chunk.blocked] if chunk.blocked else [each.finish_reason or "" for each in candidates]
    return WholeAnswer(
        usage=usage.total(is_empty_answer=not any(map(says_something, parts))),
        finish_reasons=tuple(filter(None, reasons)),
        model=chunk.model_version or "",
        soft_errors=soft_errors,
    )


def _reports_work(chunk: Chunk) -> bool:
    usage = chunk.usage_metadata
    return chunk.candidates is not None and usage is not None and bool(usage.prompt_token_count)


def _chunk(body: bytes) -> Chunk | None:
    """None for a list, which may hold an error. Raises ValueError for what is no JSON object."""
    try:
        return strict_chunk(body)
    except (ValueError, RecursionError):
        pass
    try:
        return loose_chunk(body.decode())
    except Unreadable:
        if body.lstrip()[:1] == b"[":
            return None
        raise


def _members_or_error(body: bytes) -> Members | UpstreamError:
    failed = _error(body) if b'"error"' in body[:4096] or body.lstrip()[:1] == b"[" else None
    return failed or answer_members(body)


def _error(body: bytes) -> UpstreamError | None:
    return find_error(value(body))


def _is_picture(raw: msgspec.Raw) -> bool:
    try:
        return _read_picture(raw).bytes_base64_encoded is not _UNSET
    except (msgspec.MsgspecError, RecursionError):
        return False
