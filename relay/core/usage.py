"""Token usage as one upstream answer reported it. Tokens only; money lives in `billing`."""

import msgspec


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    """Counts in tokens, normalised: `input` includes `cached_input`; `output` includes `reasoning`.

    None means "not reported", which is not the same as 0.
    """

    input: int | None = None
    cached_input: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.input is not None and self.output is not None
