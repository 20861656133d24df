"""OpenAI's Responses API, and the vendors that speak it. One subject a module:

request (read and build), event (one event decoded), items (tool calls and pictures of a response),
inspector (what a stream says), whole (a body that was not streamed), aggregate (events → whole), explode
(whole → events), errors. Source: https://platform.openai.com/docs/api-reference/responses.
"""

from collections.abc import Iterator, Mapping

from relay.core.dialects.base import Aggregator, Ask, StreamInspector, UpstreamError, WholeAnswer
from relay.core.dialects.openai_responses import errors, request, whole
from relay.core.dialects.openai_responses.aggregate import ResponsesAggregator
from relay.core.dialects.openai_responses.explode import whole_to_events
from relay.core.dialects.openai_responses.inspector import ResponsesInspector
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal


class OpenAIResponses:
    """The `Dialect`; each method is described there."""

    name = "openai_responses"

    def parse_request(self, body: bytes) -> Ask:
        return request.parse_request(body)

    def build_request(
        self,
        ask: Ask,
        *,
        model: str,
        stream: bool,
        request_usage: bool,  # noqa: ARG002 - the protocol's signature; the last event always has a usage
        overrides: Mapping[str, object],
    ) -> bytes:
        return request.build_request(ask, model=model, stream=stream, overrides=overrides)

    def stream_inspector(self, ask: Ask) -> StreamInspector:  # noqa: ARG002 - the protocol's signature
        return ResponsesInspector()

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_whole(body)

    def aggregator(self, ask: Ask) -> Aggregator:  # noqa: ARG002 - the protocol's signature
        return ResponsesAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:  # noqa: ARG002 - the protocol's
        return whole_to_events(body)

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return parse_error_body(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


OPENAI_RESPONSES = OpenAIResponses()
