"""Anthropic's `usage` object, and what servers that imitate it make of it, as `TokenUsage`.

`input_tokens` leaves out what was read from and written to the cache; the whole prompt is the sum. Counts are
totals: those of `message_delta` replace those of `message_start`, they never add to them. Must not know
streams or answers.
"""

import json
from typing import NamedTuple

import msgspec

from relay.core.dialects.counts import USAGE_ABSURD, Count, Reported, loose_counts
from relay.core.usage import MAX_COUNT, TokenUsage

COMPACTION = "compaction"
"""Iterations that summarise the context: billed, but left out of the counts at the top."""


class CacheCreation(msgspec.Struct, gc=False):
    """What was written to the cache, by how long it is kept."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: Count | None = None


class Iteration(msgspec.Struct, gc=False):
    type: str = ""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: CacheCreation | None = None


class Usage(msgspec.Struct, gc=False):
    """Source: https://platform.claude.com/docs/en/api/messages/create, `usage`."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None
    iterations: list[Iteration] | None = None


class AbsurdUsage(Usage, gc=False):
    """Something in it was no count, and is None here."""


class _Prompt(NamedTuple):
    """The four counts of a prompt; None = not reported."""

    fresh: int | None = None
    read: int | None = None
    written: int | None = None
    written_1h: int | None = None

    @property
    def says_something(self) -> bool:
        return bool(self.fresh or self.read or self.written)

    def replaced_by(self, later: "_Prompt") -> "_Prompt":
        """The last reported number wins, per field, with two exceptions that imitations make necessary.

        Zeros throughout say nothing: a prompt that had tokens cannot lose them (envoyproxy/ai-gateway#1631,
        sgl-project/sglang#20830). And where the first report knew no cache and a later one names nothing but
        the cached part, the first was the whole prompt (jeremychone/rust-genai#258).
        """
        if not later.says_something:
            return self if self.says_something else self._filled(later)
        if later.fresh is None and self.read is None and self.written is None and self.fresh is not None:
            cached = (later.read or 0) + (later.written or 0)
            return later._replace(fresh=max(0, self.fresh - cached))
        return self._filled(later)

    def _filled(self, later: "_Prompt") -> "_Prompt":
        return _Prompt(*(old if new is None else new for old, new in zip(self, later, strict=True)))


class UsageSoFar:
    """The usage of one answer as its reports come in."""

    __slots__ = ("_compaction", "_output", "_prompt", "_reasoning")

    def __init__(self) -> None:
        self._prompt = _Prompt()
        self._output: int | None = None
        self._reasoning: int | None = None
        self._compaction: list[Iteration] = []

    def add(self, usage: Usage, *, has_output: bool = True) -> TokenUsage | None:
        """What is known now; None = nothing yet.

        has_output: False for the report a stream begins with: its output is a token or two, whatever comes.
        """
        self._prompt = self._prompt.replaced_by(_prompt_of(usage))
        if has_output:
            self._output = self._output if usage.output_tokens is None else usage.output_tokens
            details = usage.output_tokens_details
            if details is not None and details.thinking_tokens is not None:
                self._reasoning = details.thinking_tokens
        if usage.iterations is not None:
            self._compaction = [each for each in usage.iterations if each.type == COMPACTION]
        return self._total()

    def _total(self) -> TokenUsage | None:
        prompt, output, reasoning = self._prompt, self._output, self._reasoning
        for each in self._compaction:
            prompt = _Prompt(*map(_sum, prompt, _prompt_of(each)))
            output = None if output is None else output + (each.output_tokens or 0)
        if not prompt.says_something and output is None:
            return None
        written_1h = None if prompt.written_1h is None else min(prompt.written_1h, prompt.written or 0)
        return TokenUsage(
            # Zero cannot be: no message is without a prompt. It is missing then, and will be estimated.
            input=_whole(prompt) if prompt.says_something else None,
            cached_input=prompt.read,
            cache_write_5m=None if prompt.written is None else prompt.written - (written_1h or 0),
            cache_write_1h=written_1h,
            output=output,
            reasoning=None if reasoning is None or output is None else min(reasoning, output),
        )


_read_usage = msgspec.json.Decoder(Usage).decode


def usage_from_raw(raw: msgspec.Raw | None) -> Reported:
    """Of a whole answer. No tokens when `raw` is null, not an object, or reports nothing. Never raises."""
    if raw is None:
        return Reported()
    usage: Usage | None
    try:
        usage = _read_usage(raw)
    except (msgspec.MsgspecError, RecursionError):
        try:
            usage = loose_usage(json.loads(bytes(raw)))
        except (ValueError, RecursionError):  # a number of thousands of digits, say
            usage = AbsurdUsage()
    if usage is None:
        return Reported()
    return Reported(UsageSoFar().add(usage), (USAGE_ABSURD,) if isinstance(usage, AbsurdUsage) else ())


def loose_usage(value: object) -> Usage | None:
    """From decoded JSON whose members have odd types. None only for null: what is there is a usage.

    `12.0` is a count; what is none is left out of an `AbsurdUsage`.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        return AbsurdUsage() if value else Usage()
    unusable: list[str] = []
    iterations = value.get("iterations")
    counts = loose_counts(value, _NUMBERS, unusable)
    made = AbsurdUsage if unusable else Usage
    return made(
        **counts,
        cache_creation=_loose_creation(value.get("cache_creation")),
        output_tokens_details=_loose_details(value.get("output_tokens_details")),
        iterations=_loose_iterations(iterations) if isinstance(iterations, list) else None,
    )


_NUMBERS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_LIFETIMES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def _prompt_of(usage: Usage | Iteration) -> _Prompt:
    """Written is what the total says, or else the sum of its parts; all but the hour's is 5 minutes'."""
    written, created = usage.cache_creation_input_tokens, usage.cache_creation
    written_1h = None if created is None else created.ephemeral_1h_input_tokens
    if created is not None and written is None:
        written = _sum(created.ephemeral_5m_input_tokens, written_1h)
    return _Prompt(usage.input_tokens, usage.cache_read_input_tokens, written, written_1h)


def _whole(prompt: _Prompt) -> int:
    return min((prompt.fresh or 0) + (prompt.read or 0) + (prompt.written or 0), MAX_COUNT)


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one + (other or 0)


def _loose_creation(value: object) -> CacheCreation | None:
    return CacheCreation(**loose_counts(value, _LIFETIMES, [])) if isinstance(value, dict) else None


def _loose_details(value: object) -> OutputDetails | None:
    if not isinstance(value, dict):
        return None
    return OutputDetails(**loose_counts(value, ("thinking_tokens",), []))


def _loose_iterations(values: list[object]) -> list[Iteration]:
    return [
        Iteration(
            **loose_counts(value, _NUMBERS, []),
            type=COMPACTION,
            cache_creation=_loose_creation(value.get("cache_creation")),
        )
        for value in values
        if isinstance(value, dict) and value.get("type") == COMPACTION
    ]
