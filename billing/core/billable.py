"""Usage → disjoint parts, each token in exactly one of them. Pure.

`TokenUsage.input` is the whole prompt and holds what was cached, written, heard and seen; `output` holds what
was reasoned, spoken and drawn. Each part is cut off its whole as long as the whole lasts, in the order below,
and the rest is plain text. So no part is ever negative, and the parts add up to the whole, whatever an
upstream claims: of 100 prompt tokens with 250 cached, 100 are cached. A token that two parts claim (cached
audio) counts for the first.
"""

from collections.abc import Iterator

from relay.core.usage import TokenUsage

_INPUT_PARTS = ("cached_input", "cache_write_1h", "cache_write_5m", "audio_input", "image_input")
_OUTPUT_PARTS = ("reasoning", "audio_output", "image_output")


def billable_tokens(usage: TokenUsage) -> dict[str, int]:
    """Part → tokens, parts without any left out. `input` is the prompt's text that no cache served or took;
    `output` the answer's visible text.
    """
    counts = {**dict(_cut(usage, "input", _INPUT_PARTS)), **dict(_cut(usage, "output", _OUTPUT_PARTS))}
    return {part: count for part, count in counts.items() if count}


def prompt_tokens(usage: TokenUsage) -> int:
    """The length that decides the tier."""
    return _whole(usage, "input", _INPUT_PARTS)


def _cut(usage: TokenUsage, whole: str, parts: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    left = _whole(usage, whole, parts)
    taken = []
    for part in parts:
        count = min(_count(usage, part), left)
        left -= count
        taken.append((part, count))
    yield whole, left
    yield from taken


def _whole(usage: TokenUsage, whole: str, parts: tuple[str, ...]) -> int:
    """A whole that was not reported is at least its parts."""
    if getattr(usage, whole) is None:
        return sum(_count(usage, part) for part in parts)
    return _count(usage, whole)


def _count(usage: TokenUsage, name: str) -> int:
    count: int | None = getattr(usage, name)
    return max(count or 0, 0)
