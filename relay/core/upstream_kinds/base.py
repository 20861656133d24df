"""What an upstream kind decides: where a request goes and how the channel's credential is shown."""

from typing import Protocol


class UpstreamKind(Protocol):
    @property
    def name(self) -> str: ...

    def url(self, base_url: str, path: str, query: str) -> str:
        """The upstream URL for a client's path, e.g. `/v1/chat/completions`."""
        ...

    def credentials(self, secret: str) -> tuple[tuple[bytes, bytes], ...]:
        """Header fields that authenticate the channel. ValueError if the secret cannot be a header."""
        ...
