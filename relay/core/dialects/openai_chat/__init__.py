"""OpenAI chat completions, and every vendor that speaks them. One subject a module:

request (read and build), chunk (one event decoded), inspector (what a stream says), repairs (what may
change in it), usage, whole (a body that was not streamed), aggregate (events → whole), explode
(whole → events), errors. Source: https://platform.openai.com/docs/api-reference/chat.
"""

from collections.abc import Iterator, Mapping

from relay.core.dialects.base import Aggregator, Ask, StreamInspector, UpstreamError, WholeAnswer
from relay.core.dialects.openai_chat import errors, request, whole
from relay.core.dialects.openai_chat.aggregate import OpenAIChatAggregator
from relay.core.dialects.openai_chat.explode import whole_to_events
from relay.core.dialects.openai_chat.inspector import OpenAIChatInspector
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal


class OpenAIChat:
    """The `Dialect`; each method is described there."""

    name = "openai_chat"

    def parse_request(self, body: bytes) -> Ask:
        return request.parse_request(body)

    def build_request(
        self, ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
    ) -> bytes:
        return request.build_request(
            ask, model=model, stream=stream, request_usage=request_usage, overrides=overrides
        )

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return OpenAIChatInspector(ask)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_whole(body)

    def aggregator(self, ask: Ask) -> Aggregator:  # noqa: ARG002 - the protocol's signature
        return OpenAIChatAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        return whole_to_events(body, ask)

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return parse_error_body(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


OPENAI_CHAT = OpenAIChat()
