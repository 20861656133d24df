"""How much of an answer a request allows: n × max_tokens, whatever the dialect calls them; for each prompt.

Must not know prices. Values of another type than the dialect allows count as not said: whether they are an
error is the dialect's, or the upstream's, to say.
"""

from collections.abc import Mapping

import msgspec

from relay.core.usage import MAX_COUNT

_OUTPUT_MEMBERS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
LIMIT_MEMBERS = frozenset(
    {"n", "best_of", "prompt", *_OUTPUT_MEMBERS, "generationConfig", "generation_config"}
)
"""All that is looked at."""


_integer = msgspec.json.Decoder(int | float)
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _GenerationConfig(msgspec.Struct, rename="camel", gc=False):
    """Gemini's: https://ai.google.dev/api/generate-content#generationconfig."""

    max_output_tokens: int | float | None = None
    candidate_count: int | float | None = None


_config = msgspec.json.Decoder(_GenerationConfig)
_NO_CONFIG = _GenerationConfig()


class LimitsAsked(msgspec.Struct, frozen=True, gc=False):
    """choices: answers that are made, at least 1, also those that `best_of` throws away. output: tokens
    allowed for each; 0 = not said.
    """

    choices: int = 1
    output: int = 0


_NOTHING_ASKED = LimitsAsked()


def limits_asked(fields: Mapping[str, msgspec.Raw]) -> LimitsAsked:
    """fields: top-level members of a request as the client's own bytes."""
    if LIMIT_MEMBERS.isdisjoint(fields):
        return _NOTHING_ASKED
    config = _generation_config(fields.get("generationConfig") or fields.get("generation_config"))
    choices = max(_number(fields.get("n")), _number(fields.get("best_of"))) or _whole(config.candidate_count)
    output = next((number for name in _OUTPUT_MEMBERS if (number := _number(fields.get(name)))), 0)
    return LimitsAsked(
        (choices or 1) * _prompts(fields.get("prompt")), output or _whole(config.max_output_tokens)
    )


def output_limit(fields: Mapping[str, msgspec.Raw]) -> int:
    """Tokens allowed in all; 0 = not said."""
    asked = limits_asked(fields)
    return asked.choices * asked.output


def _prompts(raw: msgspec.Raw | None) -> int:
    """Completions take many at once, as texts or as lists of tokens; a list of numbers is one prompt."""
    if raw is None or _first_byte(raw) != b"[":
        return 1
    try:
        prompts = _read_items(raw)
    except msgspec.MsgspecError:
        return 1
    return len(prompts) if prompts and _first_byte(prompts[0]) in {b'"', b"["} else 1


def _first_byte(raw: msgspec.Raw) -> bytes:
    """Without a copy of all of it."""
    return bytes(memoryview(raw)[:1])


def _number(raw: msgspec.Raw | None) -> int:
    if raw is None:
        return 0
    try:
        return _whole(_integer.decode(raw))
    except msgspec.MsgspecError:
        return 0


def _generation_config(raw: msgspec.Raw | None) -> _GenerationConfig:
    if raw is not None:
        try:
            return _config.decode(raw)
        except msgspec.MsgspecError:
            pass
    return _NO_CONFIG


def _whole(number: float | None) -> int:
    return int(min(number, MAX_COUNT)) if number is not None and number >= 1 else 0
