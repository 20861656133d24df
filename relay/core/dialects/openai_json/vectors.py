"""Embeddings, moderations and rerank: one JSON answer, made of numbers, and no output tokens.

Usage: OpenAI counts `prompt_tokens`; Jina, vLLM and others only `total_tokens` in a rerank; Cohere tells in
`meta`. Must not read the numbers themselves.
"""

import msgspec

from relay.core.dialects.as_sent import AsSent, read_as_sent
from relay.core.dialects.base import Ask, StreamInspector, WholeAnswer
from relay.core.dialects.counts import Count, Reported
from relay.core.dialects.members import Members, answer_members, members, text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_json.events import JsonEventsInspector
from relay.core.dialects.request_fields import optional_model
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage, merged

_NO_OUTPUT = TokenUsage(output=0)
_ANSWERS = ("data", "results", "embeddings")


class _Total(msgspec.Struct, gc=False):
    total_tokens: Count | None = None


_read_total = msgspec.json.Decoder(_Total).decode


class Vectors(AsSent):
    """The `Dialect` of answers that are lists of numbers."""

    name = "openai_vectors"

    def parse_request(self, body: bytes) -> Ask:
        """The model may be left out: moderations have a default."""
        fields, body = read_as_sent(body)
        return Ask(model=optional_model(fields), has_streamed_form=False, fields=fields, body=body)

    def stream_inspector(self, ask: Ask) -> StreamInspector:  # noqa: ARG002 - the protocol's signature
        return JsonEventsInspector(frozenset(), 1, usage_from_raw)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Raises ValueError when the body is neither such an answer nor an error."""
        answer = answer_members(body)
        if not any(bytes(answer.get(name, b""))[:1] == b"[" for name in _ANSWERS):
            found = find_error(value(body))
            if found is None:
                raise ValueError("no list of results")
            return WholeAnswer(error=found)
        reported = _reported(answer)
        return WholeAnswer(
            usage=merged(reported.tokens, _NO_OUTPUT),
            model=text(answer.get("model")),
            soft_errors=reported.soft_errors,
        )


def _reported(answer: Members) -> Reported:
    """`usage`, else what Cohere says of tokens; a total is all input, because there is no output."""
    raw = answer.get("usage")
    if raw is None:
        meta = members(answer.get("meta"))
        raw = meta.get("tokens", meta.get("billed_units"))
    reported = usage_from_raw(raw)
    if raw is None or (reported.tokens is not None and reported.tokens.input is not None):
        return reported
    try:
        total = _read_total(raw).total_tokens
    except (msgspec.MsgspecError, RecursionError):
        return reported
    return Reported(merged(reported.tokens, TokenUsage(input=total)), reported.soft_errors)
