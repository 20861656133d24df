"""OpenAI's `usage` object, and what vendors make of it, as `TokenUsage`.

Reported numbers are totals: a later report replaces an earlier one field by field, never adds to it.
Must not know streams or answers.
"""

import msgspec

from relay.core.dialects.openai_chat.loose import whole_number
from relay.core.usage import TokenUsage


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    """OpenRouter."""
    audio_tokens: int | None = None


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """Source: https://platform.openai.com/docs/api-reference/chat/object, `usage`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    """DeepSeek's name for cached input."""
    input_tokens: int | None = None
    """The Responses and image endpoints' name for prompt tokens."""
    output_tokens: int | None = None
    input_tokens_details: PromptDetails | None = None
    output_tokens_details: CompletionDetails | None = None


_read_usage = msgspec.json.Decoder(Usage).decode


def usage_from_raw(raw: msgspec.Raw) -> TokenUsage | None:
    """None when `raw` is null, not an object, or reports nothing."""
    try:
        return normalised(_read_usage(raw))
    except msgspec.MsgspecError:
        pass
    try:
        return normalised(loose_usage(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, RecursionError):
        return None


def normalised(usage: Usage | None) -> TokenUsage | None:
    """None when nothing is reported."""
    if usage is None:
        return None
    prompt = usage.prompt_tokens_details or usage.input_tokens_details or _NO_PROMPT_DETAILS
    completion = usage.completion_tokens_details or usage.output_tokens_details or _NO_COMPLETION_DETAILS
    total = TokenUsage(
        input=_count(_first(usage.prompt_tokens, usage.input_tokens)),
        cached_input=_count(_first(prompt.cached_tokens, usage.prompt_cache_hit_tokens)),
        cache_write=_count(prompt.cache_write_tokens),
        output=_output(usage, completion.reasoning_tokens),
        reasoning=_count(completion.reasoning_tokens),
        audio_input=_count(prompt.audio_tokens),
        audio_output=_count(completion.audio_tokens),
    )
    return None if total == _NOTHING else total


def merged(old: TokenUsage | None, new: TokenUsage) -> TokenUsage:
    """The last reported number wins, per field."""
    if old is None:
        return new
    return TokenUsage(
        input=_first(new.input, old.input),
        cached_input=_first(new.cached_input, old.cached_input),
        cache_write=_first(new.cache_write, old.cache_write),
        output=_first(new.output, old.output),
        reasoning=_first(new.reasoning, old.reasoning),
        audio_input=_first(new.audio_input, old.audio_input),
        audio_output=_first(new.audio_output, old.audio_output),
    )


def loose_usage(value: object) -> Usage | None:
    """From decoded JSON whose members have odd types: what is not a whole number counts as absent."""
    if not isinstance(value, dict):
        return None
    numbers = {name: whole_number(value.get(name)) for name in _NUMBERS}
    return Usage(
        **numbers,
        prompt_tokens_details=_loose_prompt_details(value.get("prompt_tokens_details")),
        completion_tokens_details=_loose_completion_details(value.get("completion_tokens_details")),
        input_tokens_details=_loose_prompt_details(value.get("input_tokens_details")),
        output_tokens_details=_loose_completion_details(value.get("output_tokens_details")),
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


def _output(usage: Usage, reasoning: int | None) -> int | None:
    """Grok (xAI) reports reasoning beside the completion and not within it: its total gives that away."""
    output = _count(_first(usage.completion_tokens, usage.output_tokens))
    prompt = _first(usage.prompt_tokens, usage.input_tokens)
    if output is None or not reasoning or prompt is None:
        return output
    return output + reasoning if usage.total_tokens == prompt + output + reasoning else output


def _first(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _count(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None


def _loose_prompt_details(value: object) -> PromptDetails | None:
    if not isinstance(value, dict):
        return None
    return PromptDetails(
        cached_tokens=whole_number(value.get("cached_tokens")),
        cache_write_tokens=whole_number(value.get("cache_write_tokens")),
        audio_tokens=whole_number(value.get("audio_tokens")),
    )


def _loose_completion_details(value: object) -> CompletionDetails | None:
    if not isinstance(value, dict):
        return None
    return CompletionDetails(
        reasoning_tokens=whole_number(value.get("reasoning_tokens")),
        audio_tokens=whole_number(value.get("audio_tokens")),
    )
