"""Pass-through: paths whose protocol the relay does not read. Bodies and events go on byte for byte.

Model and stream are read where the body is a JSON object, because access, price and timers hang on
them; nothing else is understood. Errors of our own are told in OpenAI's shape. Must not know paths.
"""
# ruff: noqa: ARG002 - the signatures are the protocols', whether a pass-through needs them or not

from collections.abc import Iterator, Mapping

import msgspec

from relay.core.dialects.base import (
    AggregationFailed,
    Aggregator,
    Ask,
    EventKind,
    Relayed,
    StreamFacts,
    StreamInspector,
    UpstreamError,
    WholeAnswer,
)
from relay.core.dialects.json_body import read_top_level
from relay.core.dialects.openai_chat import errors
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.upstream_errors import parse_error_body
from relay.core.errors import Refusal
from relay.core.sse import Event

MAX_MODEL_CHARS = 256

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode
_read_flag = msgspec.json.Decoder(bool).decode

_GUARDED = ("model", "stream")


class Opaque:
    """The `Dialect` of every path that has none."""

    name = "opaque"

    def parse_request(self, body: bytes) -> Ask:
        """Anything is accepted but broken JSON.

        An upstream that reads it more kindly than we do could be asked for a model that this caller may
        not use.
        """
        if body.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] != b"{":
            return Ask(model="", body=body)
        fields = read_top_level(body)
        if _is_ambiguous(body, fields):
            body = msgspec.json.encode(fields)
        return Ask(model=_model(fields), stream=_stream(fields), fields=fields, body=body)

    def build_request(
        self, ask: Ask, *, model: str, stream: bool, request_usage: bool, overrides: Mapping[str, object]
    ) -> bytes:
        """The client's bytes, unless mapping or overrides need an edit.

        stream, request_usage: ignored; stream policies do not touch these paths.
        """
        is_mapped = bool(ask.model) and model != ask.model
        if not ask.fields or not (is_mapped or overrides):
            return ask.body
        fields: dict[str, object] = dict(ask.fields)
        if is_mapped:
            fields["model"] = model
        fields.update(overrides)
        return msgspec.json.encode(fields)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return OpaqueInspector()

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Usage and model where the body has them in OpenAI's places. Never raises."""
        if body[:64].lstrip()[:1] != b"{":
            return WholeAnswer()
        try:
            members = _read_members(body)
        except (ValueError, RecursionError):
            return WholeAnswer()
        reported = usage_from_raw(members.get("usage"))
        return WholeAnswer(usage=reported.tokens, model=_model(members), soft_errors=reported.soft_errors)

    def aggregator(self, ask: Ask) -> Aggregator:
        return _NoAggregator()

    def whole_to_events(self, body: bytes, ask: Ask) -> Iterator[bytes]:
        raise ValueError("an opaque answer has no events")

    def parse_error(self, body: bytes, status: int) -> UpstreamError:
        return parse_error_body(body, status)

    def error_body(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_body(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        return errors.error_event(refusal, request_id)


class OpaqueInspector:
    """Every event passes as it came; the first with data is content, a clean end of the body is the end."""

    def __init__(self) -> None:
        self.facts = StreamFacts(terminal_required=False)

    def observe(self, event: Event, offset: int) -> Relayed:
        if not event.has_data:
            return Relayed(EventKind.COMMENT, event.raw)
        if event.data == "[DONE]":
            self.facts.terminal_seen = True
            return Relayed(EventKind.TERMINAL, event.raw)
        return Relayed(EventKind.CONTENT, event.raw)

    def observe_plain(self, data: bytes) -> int:
        return 0

    def closing(self) -> bytes:
        return b""


class _NoAggregator:
    """Stream policies do not touch these paths; an unasked-for stream cannot become one answer."""

    def add(self, event: Event) -> None:
        """Nothing is kept."""

    def whole(self) -> bytes:
        raise AggregationFailed("opaque")


def _is_ambiguous(body: bytes, fields: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a guarded member may be there twice, perhaps with its name escaped.

    Re-encoding then leaves one. A name that also occurs deeper down only costs the re-encoding.
    """
    return any(
        name in fields and (body.count(f'"{name}"'.encode()) > 1 or b"\\u00" in body) for name in _GUARDED
    )


def _model(fields: Mapping[str, msgspec.Raw]) -> str:
    try:
        model = _read_text(fields["model"])
    except (KeyError, msgspec.MsgspecError):
        return ""
    return model if len(model) <= MAX_MODEL_CHARS else ""


def _stream(fields: Mapping[str, msgspec.Raw]) -> bool:
    try:
        return _read_flag(fields["stream"])
    except (KeyError, msgspec.MsgspecError):
        return False


OPAQUE = Opaque()
