"""`gemini`: Google's Gemini API and whoever serves it under an address of their own.

Source: https://ai.google.dev/api (versions, `x-goog-api-key`).
"""

from relay.core.url_guard import join_url

_VERSIONS = ("/v1beta/", "/v1/")
_PINNED = "/v1beta"


class GeminiKind:
    name = "gemini"
    dialects = frozenset(
        {"gemini", "gemini_array", "gemini_count_tokens", "gemini_vectors", "gemini_predict"}
    )
    default_headers: tuple[tuple[bytes, bytes], ...] = ()

    def url(self, base_url: str, path: str, query: str) -> str:
        """The API's version is the client's, but for a base URL that names one: that channel has no other."""
        if base_url.rstrip("/").endswith(_PINNED):
            version = next((version for version in _VERSIONS if path.startswith(version)), "/")
            path = f"{_PINNED}/{path.removeprefix(version)}"
        return join_url(base_url, path, query)

    def credentials(self, secret: str) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"x-goog-api-key", secret.encode("ascii")),)


GEMINI = GeminiKind()
