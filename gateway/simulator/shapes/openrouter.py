"""GET /v1/generation, after OpenRouter's API reference: what a chat completion used, told afterwards.

Must not import: Django, aiohttp.
"""

from gateway.simulator.answer import Answer
from gateway.simulator.json_values import JsonObject
from gateway.simulator.shapes.openai_chat import completion_id, usage


def generation_of(answer: Answer) -> JsonObject:
    """Only the native counts are those of the answer's usage: the others come from another tokenizer."""
    used = usage(answer)
    return {
        "id": completion_id(answer),
        "model": answer.ask.model,
        "streamed": answer.ask.stream,
        "finish_reason": str(answer.finish),
        "tokens_prompt": answer.ask.prompt_tokens + 3,
        "tokens_completion": answer.completion_tokens + 2,
        "native_tokens_prompt": used["prompt_tokens"],
        "native_tokens_completion": used["completion_tokens"],
        "native_tokens_cached": min(answer.cached_tokens, answer.ask.prompt_tokens),
        "native_tokens_reasoning": answer.reasoning_tokens,
    }
