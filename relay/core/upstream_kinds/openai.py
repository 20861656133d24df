"""`openai`: any OpenAI-compatible upstream (vLLM, Ollama, DeepSeek, …)."""

from relay.core.url_guard import join_url


class OpenAIKind:
    name = "openai"
    default_headers: tuple[tuple[bytes, bytes], ...] = ()
    dialects = frozenset(
        {"openai_chat", "openai_completions"}
        | {"openai_responses", "openai_responses_actions", "openai_responses_input_tokens"}
        | {"openai_vectors", "openai_images", "openai_speech", "openai_transcriptions", "opaque"}
    )

    def url(self, base_url: str, path: str, query: str) -> str:
        return join_url(base_url, path, query)

    def credentials(self, secret: str) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"authorization", b"Bearer " + secret.encode("ascii")),)


OPENAI = OpenAIKind()
