"""Anthropic's Messages, and every server that imitates them. One subject a module:

request (read and build), event (one event decoded), inspector (what a stream says), repairs (what may change
in it), usage, whole (a body that was not streamed), aggregate (events → whole), explode (whole → events),
errors. Source: https://platform.claude.com/docs/en/api/messages and /build-with-claude/streaming.
"""
# ruff: noqa: ARG002 - the signatures are the protocols', whether this dialect needs them or not

from collections.abc import Iterator, Mapping

from relay.core.dialects.anthropic import errors, request, whole
from relay.core.dialects.anthropic.aggregate import AnthropicAggregator
from relay.core.dialects.anthropic.explode import whole_to_events
from relay.core.dialects.anthropic.inspector import AnthropicInspector
from relay.core.dialects.base import Aggregator, Ask, StreamInspector, UpstreamError, WholeAnswer
from relay.core.dialects.token_counts import inspect_count
from relay.core.errors import Refusal


class Anthropic:
    """The `Dialect`; each method is described there."""

    name = "anthropic"

    def parse_request(self, body: bytes) -> Ask:
        return request.parse_request(body)

    def build_request(
        self, ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
    ) -> bytes:
        """request_usage: nothing to do, usage comes unasked."""
        return request.build_request(ask, model=model, stream=stream, overrides=overrides)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return AnthropicInspector()

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_whole(body)

    def aggregator(self, ask: Ask) -> Aggregator:
        return AnthropicAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        return whole_to_events(body)

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return errors.parse_error(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


class AnthropicCountTokens(Anthropic):
    """`/v1/messages/count_tokens`: asked like a message, answered with a number, never streamed or billed."""

    name = "anthropic_count_tokens"

    def parse_request(self, body: bytes) -> Ask:
        return request.parse_request(body, has_streamed_form=False)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return inspect_count(body, "input_tokens")


ANTHROPIC = Anthropic()
ANTHROPIC_COUNT_TOKENS = AnthropicCountTokens()
