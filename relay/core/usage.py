"""Token usage as one upstream answer reported it. Counts only; money lives in `billing`."""

import msgspec

MAX_COUNT = 1_000_000_000
"""Tokens; a hundred times the largest context window on sale. More is no count but a broken upstream, and
would be charged for."""


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    """Counts in tokens, normalised over dialects: `input` is the whole prompt and includes `cached_input`
    (read from the upstream's cache), `cache_write_5m` and `cache_write_1h` (written to it); `output`
    includes `reasoning`. Audio and image tokens are parts of `input` and `output` too.

    images: finished pictures; audio_ms: milliseconds of audio; characters: of text to be spoken. None
    means "not reported", which is not the same as 0.
    """

    input: int | None = None
    cached_input: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None
    image_input: int | None = None
    image_output: int | None = None
    images: int | None = None
    audio_ms: int | None = None
    characters: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.input is not None and self.output is not None


_FIELDS = TokenUsage.__struct_fields__


def merged(old: TokenUsage | None, new: TokenUsage) -> TokenUsage:
    """The last reported number wins, per field."""
    if old is None:
        return new
    reported = {name: count for name in _FIELDS if (count := getattr(new, name)) is not None}
    return msgspec.structs.replace(old, **reported)
