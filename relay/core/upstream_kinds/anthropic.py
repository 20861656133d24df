"""`anthropic`: Anthropic's own API and whoever serves its Messages under an address of their own.

Source: https://platform.claude.com/docs/en/api/overview (headers) and /versioning.
"""

from relay.core.url_guard import join_url


class AnthropicKind:
    name = "anthropic"
    dialects = frozenset({"anthropic", "anthropic_count_tokens"})
    default_headers = ((b"anthropic-version", b"2023-06-01"),)
    """Demanded by the API; what the SDKs send too."""

    def url(self, base_url: str, path: str, query: str) -> str:
        return join_url(base_url, path, query)

    def credentials(self, secret: str) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"x-api-key", secret.encode("ascii")),)


ANTHROPIC = AnthropicKind()
