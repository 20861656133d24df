"""What dialects share whose bodies go on byte for byte, both ways, unless one thing must change.

Must not know what a body asks for.
"""
# ruff: noqa: ARG002 - the signatures are the protocols', whether all of it is needed here or not

import re
from collections.abc import Iterator, Mapping

import msgspec

from relay.core.dialects.base import Aggregator, Ask, NoAggregator, UpstreamError
from relay.core.dialects.json_body import read_top_level
from relay.core.dialects.openai_chat import errors
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal
from relay.core.limits_asked import LIMIT_MEMBERS

GUARDED = LIMIT_MEMBERS | {
    "model", "stream", "stream_format", "response_format", "input", "size", "quality",
}  # fmt: skip
"""Members that access, price, holds and timers hang on: of these the upstream must read what we read."""

_ESCAPED_NAME = re.compile(rb"\\u00(?:[67]|5[fF]|43)")
"""A letter of a guarded name as an escape: lower case, `_`, `C`."""


def read_as_sent(body: bytes) -> tuple[dict[str, msgspec.Raw], bytes]:
    """The body's members, and the bytes to forward. Raises `Refusal` (400) for what is no JSON object.

    A guarded member that is there twice, perhaps with its name escaped, stays once: its last value. A name
    that also occurs deeper down only costs the writing anew.
    """
    fields = read_top_level(body)
    anew = msgspec.json.encode(fields)
    if len(anew) == len(body):  # neither white space nor a second member was left out: they are the same
        return fields, body
    guarded = GUARDED & fields.keys()
    is_repeated = any(body.count(f'"{name}"'.encode()) > 1 for name in guarded)
    return fields, anew if guarded and (is_repeated or _ESCAPED_NAME.search(body)) else body


class AsSent:
    """The half of a `Dialect` that needs no knowledge of the protocol. Errors are told in OpenAI's shape."""

    def build_request(
        self, ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
    ) -> bytes:
        """The client's bytes, unless mapping or overrides need an edit.

        stream, request_usage: ignored; stream policies do not touch these paths. overrides: top-level JSON
        members, which a form does not have.
        """
        is_mapped = bool(ask.model) and model != ask.model
        if ask.is_form:
            return _renamed_in_form(ask, model) if is_mapped else ask.body
        if not ask.fields or not (is_mapped or overrides):
            return ask.body
        fields: dict[str, object] = dict(ask.fields)
        if is_mapped:
            fields["model"] = model
        fields.update(overrides)
        return msgspec.json.encode(fields)

    def aggregator(self, ask: Ask) -> Aggregator:
        return NoAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        raise ValueError("such an answer has no events")

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return parse_error_body(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


def _renamed_in_form(ask: Ask, model: str) -> bytes:
    """Only the value of the model's part is another; every other byte stays."""
    if ask.model_span is None:
        return ask.body
    start, end = ask.model_span
    return ask.body[:start] + model.encode() + ask.body[end:]
