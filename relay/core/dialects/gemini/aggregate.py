"""Builds the whole answer out of a stream that the client did not ask for.

An unfinished stream, a frame that cannot be read or a broken function call gives no answer at all: a short
answer that looks whole is worse than a failed attempt. Must not know timers or size limits.
"""

from dataclasses import dataclass, field

from relay.core.dialects.base import TOOL_CALL_INVALID, AggregationFailed
from relay.core.dialects.gemini.chunk import Candidate, loose_chunk
from relay.core.dialects.gemini.inspector import is_sound
from relay.core.dialects.loose import Unreadable, encoded, loose_json, text, whole_number
from relay.core.sse import Event

_JOINED = frozenset({"text", "thought"})
"""A part with these members alone goes on with the text of the one before; one with a signature does not."""
_BESIDE_CANDIDATES = frozenset({"candidates", "usageMetadata"})
_BESIDE_CONTENT = frozenset({"content", "index", "logprobsResult"})


@dataclass(slots=True)
class _CandidateSoFar:
    """texts: pieces of the last part's text, joined once it is over, so that the cost stays linear."""

    role: object = "model"
    parts: list[dict[str, object]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    members: dict[str, object] = field(default_factory=dict)
    logprobs: dict[str, object] = field(default_factory=dict)

    def add_part(self, part: dict[str, object]) -> None:
        last = self.parts[-1] if self.parts else None
        piece = text(part.get("text"))
        if piece is not None and last is not None and _goes_on(last, part):
            self.texts.append(piece)
            return
        self.close_text()
        self.parts.append(dict(part))
        if piece is not None:
            self.texts.append(piece)

    def close_text(self) -> None:
        if self.texts:
            self.parts[-1]["text"] = "".join(self.texts)
            self.texts = []

    def add_logprobs(self, value: object) -> None:
        """Lists of each token's alternatives grow; what is no list is a total."""
        for name, new in value.items() if isinstance(value, dict) else ():
            old = self.logprobs.get(name)
            self.logprobs[name] = [*old, *new] if isinstance(old, list) and isinstance(new, list) else new


class GeminiAggregator:
    """`Aggregator` for generated content."""

    def __init__(self) -> None:
        self._answer: dict[str, object] = {}
        self._usage: dict[str, object] = {}
        self._candidates: dict[int, _CandidateSoFar] = {}
        self._failure = ""

    def add(self, event: Event) -> None:
        if self._failure or not event.data.strip() or event.data.strip() == "[DONE]":
            return
        try:
            value = loose_json(event.data)
        except Unreadable:
            self._failure = "not_json"
            return
        if value.get("error"):
            self._failure = "upstream_error_event"
            return
        if not all(_has_sound_calls(candidate) for candidate in loose_chunk(event.data).candidates or ()):
            self._failure = TOOL_CALL_INVALID
            return
        self._take(value)

    def whole(self) -> bytes:
        """The JSON body. Raises `AggregationFailed` with `incomplete`, `not_json`, `tool_call_invalid`, …"""
        if self._failure:
            raise AggregationFailed(self._failure)
        if not self._is_complete():
            raise AggregationFailed("incomplete")
        answer: dict[str, object] = {}
        if self._candidates:
            answer["candidates"] = [_whole(*each) for each in sorted(self._candidates.items())]
        answer.update(self._answer)
        if self._usage:
            answer["usageMetadata"] = self._usage
        return encoded(answer)

    def _is_complete(self) -> bool:
        if self._candidates:
            return all(each.members.get("finishReason") for each in self._candidates.values())
        feedback = self._answer.get("promptFeedback")
        return isinstance(feedback, dict) and bool(feedback.get("blockReason"))

    def _take(self, value: dict[str, object]) -> None:
        _fill(self._answer, value, _BESIDE_CANDIDATES)
        _fill(self._usage, value.get("usageMetadata"), frozenset())
        candidates = value.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, dict):
                self._take_candidate(candidate)

    def _take_candidate(self, value: dict[str, object]) -> None:
        index = whole_number(value.get("index")) or 0
        candidate = self._candidates.setdefault(index, _CandidateSoFar())
        _fill(candidate.members, value, _BESIDE_CONTENT)
        candidate.add_logprobs(value.get("logprobsResult"))
        content = value.get("content")
        if not isinstance(content, dict):
            return
        candidate.role = content.get("role") or candidate.role
        parts = content.get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part != {"text": ""}:
                candidate.add_part(part)


def _fill(into: dict[str, object], value: object, left_out: frozenset[str]) -> None:
    """The last value that is not null wins, per member."""
    for name, member in value.items() if isinstance(value, dict) else ():
        if name not in left_out and (member is not None or name not in into):
            into[name] = member


def _goes_on(last: dict[str, object], part: dict[str, object]) -> bool:
    return (
        "text" in last
        and last.keys() <= _JOINED
        and part.keys() <= _JOINED
        and bool(last.get("thought")) == bool(part.get("thought"))
    )


def _has_sound_calls(candidate: Candidate) -> bool:
    parts = candidate.content.parts or () if candidate.content is not None else ()
    return all(part.function_call is None or is_sound(part.function_call) for part in parts)


def _whole(index: int, candidate: _CandidateSoFar) -> dict[str, object]:
    candidate.close_text()
    whole: dict[str, object] = {"content": {"parts": candidate.parts, "role": candidate.role}, "index": index}
    if candidate.logprobs:
        whole["logprobsResult"] = candidate.logprobs
    return {**whole, **candidate.members}
