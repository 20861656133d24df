"""`openrouter`: OpenRouter, which speaks OpenAI's protocol and tells the usage of an answer afterwards, too.

Source: https://openrouter.ai/docs/api/api-reference/generations/get-generation (`GET /api/v1/generation`,
`GenerationResponse`). The answer's id is the `id` of its chunks, `gen-…`. For some seconds after an answer,
and for an id that is no generation, the look-up says 404.
"""

from urllib.parse import quote

import msgspec

from relay.core.upstream_kinds.openai import OpenAIKind
from relay.core.url_guard import join_url
from relay.core.usage import MAX_COUNT, TokenUsage

_PATH = "/v1/generation"


class _Generation(msgspec.Struct):
    """`tokens_…` are counted alike for all models, `native_tokens_…` by the model's own tokenizer, which is
    what OpenRouter charges by. `native_tokens_cached` is a part of the prompt, `native_tokens_reasoning` and
    `native_tokens_completion_images` are parts of the completion.
    """

    tokens_prompt: float | None = None
    tokens_completion: float | None = None
    native_tokens_prompt: float | None = None
    native_tokens_completion: float | None = None
    native_tokens_cached: float | None = None
    native_tokens_reasoning: float | None = None
    native_tokens_completion_images: float | None = None


class _Answer(msgspec.Struct):
    data: _Generation


_read_answer = msgspec.json.Decoder(_Answer).decode


class OpenRouterKind(OpenAIKind):
    """base URL: `https://openrouter.ai/api`."""

    name = "openrouter"

    def usage_url(self, base_url: str, answer_id: str) -> str:
        return join_url(base_url, _PATH, f"id={quote(answer_id, safe='')}")

    def usage_told(self, body: bytes) -> TokenUsage | None:
        try:
            told = _read_answer(body).data
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        usage = TokenUsage(
            input=_either(told.native_tokens_prompt, told.tokens_prompt),
            cached_input=_count(told.native_tokens_cached),
            output=_either(told.native_tokens_completion, told.tokens_completion),
            reasoning=_count(told.native_tokens_reasoning),
            image_output=_count(told.native_tokens_completion_images),
        )
        # No prompt is empty: a generation of zeros is one that has not been counted yet.
        return usage if usage.is_complete and usage.input else None


def _either(native: float | None, alike: float | None) -> int | None:
    count = _count(native)
    return _count(alike) if count is None else count


def _count(value: float | None) -> int | None:
    """None for null. Errors: ValueError for what is no count."""
    if value is None:
        return None
    if not (0 <= value <= MAX_COUNT and value.is_integer()):
        raise ValueError("no count")
    return int(value)


OPENROUTER = OpenRouterKind()
