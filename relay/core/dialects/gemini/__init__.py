"""Gemini's API: content, token counts, vectors and pictures by `predict`. One subject a module:

request (path, query and body), framing (events or an array), chunk (one event decoded), inspector (what a
stream says), repairs (what may change in it), usage, whole (bodies that were not streamed), aggregate (events
→ whole), explode (whole → events), errors. Source: https://ai.google.dev/api.
"""
# ruff: noqa: ARG002 - the signatures are the protocols', whether a dialect needs them or not

from abc import abstractmethod
from collections.abc import Iterator, Mapping

from relay.core.dialects.base import (
    Aggregator,
    Ask,
    Dialect,
    NoAggregator,
    ReadsTargets,
    StreamInspector,
    UpstreamError,
    WholeAnswer,
)
from relay.core.dialects.gemini import errors, request, whole
from relay.core.dialects.gemini.aggregate import GeminiAggregator
from relay.core.dialects.gemini.explode import whole_to_events
from relay.core.dialects.gemini.framing import JSON_ARRAY, last_element
from relay.core.dialects.gemini.inspector import GeminiInspector
from relay.core.dialects.opaque import OpaqueInspector
from relay.core.dialects.token_counts import inspect_count
from relay.core.errors import Refusal


class _Gemini(ReadsTargets):
    """What all of them share."""

    def parse_request(self, body: bytes) -> Ask:
        """Not possible: the model stands in the path."""
        raise TypeError("a call of this API is read with its path")

    @abstractmethod
    def inspect_whole(self, body: bytes) -> WholeAnswer: ...

    def build_request(
        self, ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
    ) -> bytes:
        """stream: stands in the path. request_usage: nothing to do, usage comes unasked."""
        return request.build_request(ask, model=model, overrides=overrides)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return OpaqueInspector()

    def aggregator(self, ask: Ask) -> Aggregator:
        return NoAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        raise ValueError("such an answer has no events")

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return errors.parse_error(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


class Gemini(_Gemini):
    """`generateContent`, and `streamGenerateContent` as events."""

    name = "gemini"

    def parse_call(self, path: str, query: str, body: bytes) -> Ask:
        return request.parse_generate(path, query, body)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return GeminiInspector(ask)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_whole(body)

    def aggregator(self, ask: Ask) -> Aggregator:
        return GeminiAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        return whole_to_events(body, is_array=ask.stream_form is JSON_ARRAY)


class GeminiArray(Gemini):
    """`streamGenerateContent` without `alt=sse`: one JSON array, element by element."""

    name = "gemini_array"

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return last_element(errors.error_body(refusal, request_id))


class GeminiCountTokens(_Gemini):
    """`countTokens`: asked like content, answered with a number, never streamed or billed."""

    name = "gemini_count_tokens"

    def parse_call(self, path: str, query: str, body: bytes) -> Ask:
        return request.parse_count(path, query, body)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return inspect_count(body, "totalTokens")


class GeminiVectors(_Gemini):
    """`embedContent` and `batchEmbedContents`."""

    name = "gemini_vectors"

    def parse_call(self, path: str, query: str, body: bytes) -> Ask:
        return request.parse_embed(path, query, body)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_vectors(body)


class GeminiPredict(_Gemini):
    """`predict`: pictures."""

    name = "gemini_predict"

    def parse_call(self, path: str, query: str, body: bytes) -> Ask:
        return request.parse_predict(path, query, body)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        return whole.inspect_pictures(body)


GEMINI = Gemini()
GEMINI_ARRAY = GeminiArray()
GEMINI_COUNT_TOKENS = GeminiCountTokens()
GEMINI_VECTORS = GeminiVectors()
GEMINI_PREDICT = GeminiPredict()

GEMINI_DIALECTS = (GEMINI, GEMINI_ARRAY, GEMINI_COUNT_TOKENS, GEMINI_VECTORS, GEMINI_PREDICT)

_BY_VERB: Mapping[str, Dialect] = {
    request.GENERATE: GEMINI,
    "countTokens": GEMINI_COUNT_TOKENS,
    "embedContent": GEMINI_VECTORS,
    "batchEmbedContents": GEMINI_VECTORS,
    "predict": GEMINI_PREDICT,
}
VERBS = (*_BY_VERB, request.STREAM)


def dialect_of(verb: str, query: str) -> Dialect:
    """Of a call's verb. Raises `Refusal` 404 for verbs that are not served, 400 for an unknown `alt`."""
    if verb == request.STREAM:
        return GEMINI if request.is_events(query) else GEMINI_ARRAY
    found = _BY_VERB.get(verb)
    if found is None:
        message = f"`:{verb}` is not served: what it creates would belong to nobody."
        raise Refusal(404, message, code="unknown_url")
    return found
