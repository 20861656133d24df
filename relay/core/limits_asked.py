"""How much of an answer a request allows: n × max_tokens, whatever the dialect calls them.

Must not know prices. Values of another type than the dialect allows count as not said: whether they are an
error is the dialect's, or the upstream's, to say.
"""

from collections.abc import Mapping

import msgspec

_OUTPUT_MEMBERS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_MEMBERS = frozenset({"n", *_OUTPUT_MEMBERS, "generationConfig", "generation_config"})
_COUNT_MAX = 1_000_000_000

_integer = msgspec.json.Decoder(int | float)


class _GenerationConfig(msgspec.Struct, rename="camel", gc=False):
    """Gemini's: https://ai.google.dev/api/generate-content#generationconfig."""

    max_output_tokens: int | float | None = None
    candidate_count: int | float | None = None


_config = msgspec.json.Decoder(_GenerationConfig)
_NO_CONFIG = _GenerationConfig()


class LimitsAsked(msgspec.Struct, frozen=True, gc=False):
    """choices: answers asked for, at least 1. output: tokens allowed for each; 0 = not said."""

    choices: int = 1
    output: int = 0


_NOTHING_ASKED = LimitsAsked()


def limits_asked(fields: Mapping[str, msgspec.Raw]) -> LimitsAsked:
    """fields: top-level members of a request as the client's own bytes."""
    if _MEMBERS.isdisjoint(fields):
        return _NOTHING_ASKED
    config = _generation_config(fields.get("generationConfig") or fields.get("generation_config"))
    choices = _number(fields.get("n")) or _whole(config.candidate_count) or 1
    output = next((number for name in _OUTPUT_MEMBERS if (number := _number(fields.get(name)))), 0)
    return LimitsAsked(choices, output or _whole(config.max_output_tokens))


def output_limit(fields: Mapping[str, msgspec.Raw]) -> int:
    """Tokens allowed in all; 0 = not said."""
    asked = limits_asked(fields)
    return asked.choices * asked.output


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
    return int(min(number, _COUNT_MAX)) if number is not None and number >= 1 else 0
