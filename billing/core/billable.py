"""Usage → disjoint parts, each token in exactly one of them. Pure.

`TokenUsage.input` is the whole prompt and holds what was cached, written, heard and seen; `output` holds what
was reasoned, spoken and drawn. Each part is cut off its whole as long as the whole lasts, in the order below,
and the rest is plain text. So no part is ever negative, and the parts add up to the whole, whatever an
upstream claims: of 100 prompt tokens with 250 cached, 100 are cached. A token that two parts claim (cached
audio) counts for the first.
"""

from collections.abc import Sequence
from operator import attrgetter

from relay.core.usage import TokenUsage

_INPUT_PARTS = ("cached_input", "cache_write_1h", "cache_write_5m", "audio_input", "image_input")
_OUTPUT_PARTS = ("reasoning", "audio_output", "image_output")
_input_counts, _output_counts = attrgetter(*_INPUT_PARTS), attrgetter(*_OUTPUT_PARTS)


def billable_tokens(usage: TokenUsage) -> dict[str, int]:
    """Part → tokens, parts without any left out. `input` is the prompt's text that no cache served or took;
    `output` the answer's visible text.
    """
    tokens = _cut("input", usage.input, _INPUT_PARTS, _input_counts(usage))
    return tokens | _cut("output", usage.output, _OUTPUT_PARTS, _output_counts(usage))


def prompt_tokens(usage: TokenUsage) -> int:
    """The length that decides the tier."""
    return _whole(usage.input, _input_counts(usage))


def _cut(
    name: str, reported: int | None, parts: Sequence[str], counts: Sequence[int | None]
) -> dict[str, int]:
    left = _whole(reported, counts)
    if not any(counts):
        return {name: left} if left else {}
    taken = {}
    for part, count in zip(parts, counts, strict=True):
        taken[part] = min(max(count or 0, 0), left)
        left -= taken[part]
    return {part: count for part, count in {name: left, **taken}.items() if count}


def _whole(reported: int | None, counts: Sequence[int | None]) -> int:
    """A whole that was not reported is at least its parts."""
    if reported is None:
        return sum(max(count or 0, 0) for count in counts)
    return max(reported, 0)
