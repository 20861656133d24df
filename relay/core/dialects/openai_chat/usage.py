"""OpenAI's `usage` object, and what vendors make of it, as `TokenUsage`.

Reported numbers are totals: a later report replaces an earlier one field by field, never adds to it.
Must not know streams or answers.
"""

import json

import msgspec

from relay.core.dialects.counts import USAGE_ABSURD, Count, Reported, loose_counts
from relay.core.usage import TokenUsage


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    """OpenRouter."""
    audio_tokens: Count | None = None
    image_tokens: Count | None = None


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Count | None = None
    audio_tokens: Count | None = None
    image_tokens: Count | None = None


class Usage(msgspec.Struct, gc=False):
    """Source: https://platform.openai.com/docs/api-reference/chat/object, `usage`."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: Count | None = None
    """DeepSeek's name for cached input."""
    input_tokens: Count | None = None
    """The Responses and image endpoints' name for prompt tokens."""
    output_tokens: Count | None = None
    input_tokens_details: PromptDetails | None = None
    output_tokens_details: CompletionDetails | None = None
    input_token_details: PromptDetails | None = None
    """Transcriptions say it in the singular."""


class AbsurdUsage(Usage, gc=False):
    """Something in it was no count, and is None here."""


_read_usage = msgspec.json.Decoder(Usage).decode


def usage_from_raw(raw: msgspec.Raw | None) -> Reported:
    """No tokens when `raw` is null, not an object, or reports nothing. Never raises."""
    if raw is None:
        return Reported()
    try:
        return Reported(normalised(_read_usage(raw)))
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        usage = loose_usage(json.loads(bytes(raw)))  # unlike msgspec it reads 1e999
    except (ValueError, RecursionError):  # a number of thousands of digits, say
        usage = AbsurdUsage()
    return Reported(normalised(usage), (USAGE_ABSURD,) if isinstance(usage, AbsurdUsage) else ())


def normalised(usage: Usage | None) -> TokenUsage | None:
    """None when nothing is reported."""
    if usage is None:
        return None
    prompt = (
        usage.prompt_tokens_details
        or usage.input_tokens_details
        or usage.input_token_details
        or _NO_PROMPT_DETAILS
    )
    completion = usage.completion_tokens_details or usage.output_tokens_details or _NO_COMPLETION_DETAILS
    total = TokenUsage(
        input=_first(usage.prompt_tokens, usage.input_tokens),
        cached_input=_first(prompt.cached_tokens, usage.prompt_cache_hit_tokens),
        cache_write_5m=prompt.cache_write_tokens,
        output=_output(usage, completion.reasoning_tokens),
        reasoning=completion.reasoning_tokens,
        audio_input=prompt.audio_tokens,
        audio_output=completion.audio_tokens,
        image_input=prompt.image_tokens,
        image_output=completion.image_tokens,
    )
    return None if total == _NOTHING else total


def loose_usage(value: object) -> Usage | None:
    """From decoded JSON whose members have odd types. None only for null: what is there is a usage.

    `12.0` is a count; what is none is left out of an `AbsurdUsage`.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        return AbsurdUsage() if value else Usage()  # PHP writes an empty object as `[]`
    unusable: list[str] = []
    numbers = loose_counts(value, _NUMBERS, unusable)
    prompt = _loose_prompt_details(value.get("prompt_tokens_details"), unusable)
    completion = _loose_completion_details(value.get("completion_tokens_details"), unusable)
    input_details = _loose_prompt_details(value.get("input_tokens_details"), unusable)
    output_details = _loose_completion_details(value.get("output_tokens_details"), unusable)
    spoken_details = _loose_prompt_details(value.get("input_token_details"), unusable)
    return (AbsurdUsage if unusable else Usage)(
        **numbers,
        prompt_tokens_details=prompt,
        completion_tokens_details=completion,
        input_tokens_details=input_details,
        output_tokens_details=output_details,
        input_token_details=spoken_details,
    )


_NOTHING = TokenUsage()
_NO_PROMPT_DETAILS = PromptDetails()
_NO_COMPLETION_DETAILS = CompletionDetails()
_NUMBERS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_cache_hit_tokens",
    "input_tokens",
    "output_tokens",
)
_PROMPT_NUMBERS = ("cached_tokens", "cache_write_tokens", "audio_tokens", "image_tokens")
_COMPLETION_NUMBERS = ("reasoning_tokens", "audio_tokens", "image_tokens")


def _output(usage: Usage, reasoning: int | None) -> int | None:
    """Grok (xAI) reports reasoning beside the completion and not within it: its total gives that away.

    The sum is never above `MAX_COUNT`, because the total it equals is not.
    """
    output = _first(usage.completion_tokens, usage.output_tokens)
    prompt = _first(usage.prompt_tokens, usage.input_tokens)
    if output is None or not reasoning or prompt is None:
        return output
    return output + reasoning if usage.total_tokens == prompt + output + reasoning else output


def _first(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _loose_prompt_details(value: object, unusable: list[str]) -> PromptDetails | None:
    if not isinstance(value, dict):
        return None
    return PromptDetails(**loose_counts(value, _PROMPT_NUMBERS, unusable))


def _loose_completion_details(value: object, unusable: list[str]) -> CompletionDetails | None:
    if not isinstance(value, dict):
        return None
    return CompletionDetails(**loose_counts(value, _COMPLETION_NUMBERS, unusable))
