"""What an upstream kind decides: where a request goes, how the credential is shown, what it speaks."""

from typing import Protocol, runtime_checkable

from relay.core.usage import TokenUsage


class UpstreamKind(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def dialects(self) -> frozenset[str]:
        """Names of the dialects it is asked in; a request in any other never reaches such a channel."""
        ...

    def url(self, base_url: str, path: str, query: str) -> str:
        """The upstream URL for a client's path, e.g. `/v1/chat/completions`."""
        ...

    @property
    def default_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Fields that the upstream demands, for requests that came without; names in lower case."""
        ...

    def credentials(self, secret: str) -> tuple[tuple[bytes, bytes], ...]:
        """Header fields that authenticate the channel. ValueError if the secret cannot be a header."""
        ...


@runtime_checkable
class TellsUsageLater(Protocol):
    """A kind whose upstreams can be asked for the usage of an answer afterwards, by the answer's id."""

    def usage_url(self, base_url: str, answer_id: str) -> str:
        """What to GET, with the channel's credential."""
        ...

    def usage_told(self, body: bytes) -> TokenUsage | None:
        """What a 200 says. None = not counted yet. Raises ValueError for what is no such answer."""
        ...
