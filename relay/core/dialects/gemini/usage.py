"""Gemini's `usageMetadata`, and what servers that imitate it make of it, as `TokenUsage`.

Counts are totals: a later report replaces an earlier one, field by field. The prompt holds what came from a
cache; what tools added to it and what was thought stand beside. Must not know streams or answers.
Source: https://ai.google.dev/api/generate-content#UsageMetadata.
"""

import json

import msgspec

from relay.core.dialects.counts import USAGE_ABSURD, Count, Reported, loose_counts
from relay.core.dialects.loose import text
from relay.core.usage import MAX_COUNT, TokenUsage


class ModalityCount(msgspec.Struct, rename="camel", gc=False):
    modality: str = ""
    token_count: Count | None = None


class Usage(msgspec.Struct, rename="camel", gc=False):
    prompt_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    total_token_count: Count | None = None
    prompt_tokens_details: list[ModalityCount] | None = None
    candidates_tokens_details: list[ModalityCount] | None = None


class AbsurdUsage(Usage, gc=False):
    """Something in it was no count, and is None here."""


_FIELDS = Usage.__struct_fields__
_NOTHING = TokenUsage()


class UsageSoFar:
    """The usage of one answer as its reports come in. images: finished pictures, counted by the caller."""

    __slots__ = ("_latest", "images")

    def __init__(self) -> None:
        self._latest = Usage()
        self.images = 0

    def add(self, usage: Usage) -> None:
        """The last reported number wins, per field; a prompt that had tokens cannot lose them."""
        latest = self._latest
        for name in _FIELDS:
            new = getattr(usage, name)
            if new or (new is not None and not getattr(latest, name)):
                setattr(latest, name, new)

    def total(self, *, is_empty_answer: bool = False) -> TokenUsage | None:
        """What is known now; None = nothing yet.

        is_empty_answer: the answer is complete and has no text. Its count of zero is left out then, as zeros
        are in this API's JSON: it is no missing count.
        """
        latest = self._latest
        prompt = _prompt(latest)
        output = _output(latest, prompt)
        if output is None and is_empty_answer and prompt is not None:
            output = 0
        reasoning = latest.thoughts_token_count
        found = TokenUsage(
            input=prompt,
            cached_input=_at_most(latest.cached_content_token_count, prompt),
            output=output,
            reasoning=_at_most(reasoning, output),
            audio_input=_at_most(_of(latest.prompt_tokens_details, "AUDIO"), prompt),
            image_input=_at_most(_of(latest.prompt_tokens_details, "IMAGE"), prompt),
            audio_output=_at_most(_of(latest.candidates_tokens_details, "AUDIO"), output),
            image_output=_at_most(_of(latest.candidates_tokens_details, "IMAGE"), output),
            images=self.images or None,
        )
        return None if found == _NOTHING else found


def _prompt(usage: Usage) -> int | None:
    """With what tools added to it. Zero cannot be, no request is without a prompt: it is missing then."""
    if not usage.prompt_token_count:
        return None
    return min(usage.prompt_token_count + (usage.tool_use_prompt_token_count or 0), MAX_COUNT)


def _output(usage: Usage, prompt: int | None) -> int | None:
    """Candidates and thoughts.

    The total tells two things: thoughts that are counted within the candidates already
    (Arize-ai/openinference#3177; mostly they are not, simonw/llm-gemini#75), and what was produced where no
    candidates are reported, as when the limit was spent on thinking.
    """
    candidates, thoughts, total = (
        usage.candidates_token_count, usage.thoughts_token_count or 0, usage.total_token_count
    )  # fmt: skip
    rest = max(0, total - prompt) if total is not None and prompt is not None else None
    if candidates is None:
        return max(rest or 0, thoughts) or None
    if thoughts and rest == candidates >= thoughts:
        return candidates
    return min(candidates + thoughts, MAX_COUNT)


def _of(details: list[ModalityCount] | None, modality: str) -> int | None:
    """None where the kinds are not told apart."""
    if details is None:
        return None
    counts = [each.token_count or 0 for each in details if each.modality == modality]
    return min(sum(counts), MAX_COUNT) if counts else None


def _at_most(count: int | None, whole: int | None) -> int | None:
    return count if count is None or whole is None else min(count, whole)


_read_usage = msgspec.json.Decoder(Usage).decode


def reported(raw: msgspec.Raw | None, *, images: int = 0, is_empty_answer: bool = False) -> Reported:
    """Of a whole answer. Never raises."""
    usage = usage_from_raw(raw)
    so_far = UsageSoFar()
    so_far.images = images
    if usage is not None:
        so_far.add(usage)
    soft_errors = (USAGE_ABSURD,) if isinstance(usage, AbsurdUsage) else ()
    return Reported(so_far.total(is_empty_answer=is_empty_answer), soft_errors)


def usage_from_raw(raw: msgspec.Raw | None) -> Usage | None:
    """None for null and nothing. Never raises."""
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return _read_usage(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return loose_usage(json.loads(bytes(raw)))
    except (ValueError, RecursionError):  # a number of thousands of digits, say
        return AbsurdUsage()


def loose_usage(value: object) -> Usage | None:
    """From decoded JSON whose members have odd types. None only for null: what is there is a usage.

    `12.0` is a count; what is none is left out of an `AbsurdUsage`.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        return AbsurdUsage() if value else Usage()
    unusable: list[str] = []
    counts = loose_counts(value, tuple(_COUNTS), unusable)
    made = AbsurdUsage if unusable else Usage
    return made(
        **{field: counts[name] for name, field in _COUNTS.items()},
        prompt_tokens_details=_loose_details(value.get("promptTokensDetails")),
        candidates_tokens_details=_loose_details(value.get("candidatesTokensDetails")),
    )


_COUNTS = {
    name: field
    for field, name in zip(Usage.__struct_fields__, Usage.__struct_encode_fields__, strict=True)
    if name.endswith("Count")
}


def _loose_details(value: object) -> list[ModalityCount] | None:
    if not isinstance(value, list):
        return None
    return [
        ModalityCount(text(each.get("modality")) or "", loose_counts(each, ("tokenCount",), [])["tokenCount"])
        for each in value
        if isinstance(each, dict)
    ]
