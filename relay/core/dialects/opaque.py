"""Pass-through: paths whose protocol the relay does not read. Bodies and events go on byte for byte.

Model and stream are read where the body is a JSON object, because access, price and timers hang on
them; nothing else is understood. Errors of our own are told in OpenAI's shape. Must not know paths.
"""
# ruff: noqa: ARG002 - the signatures are the protocols', whether a pass-through needs them or not

from collections.abc import Mapping

import msgspec

from relay.core.dialects.as_sent import AsSent, read_as_sent
from relay.core.dialects.base import (
    Ask,
    EventKind,
    Relayed,
    StreamFacts,
    StreamInspector,
    WholeAnswer,
)
from relay.core.dialects.members import members, text
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.request_fields import MAX_MODEL_CHARS
from relay.core.sse import Event


class Opaque(AsSent):
    """The `Dialect` of every path that has none."""

    name = "opaque"

    def parse_request(self, body: bytes) -> Ask:
        """Anything is accepted but broken JSON.

        An upstream that reads it more kindly than we do could be asked for a model that this caller may
        not use.
        """
        if body.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] != b"{":
            return Ask(model="", body=body, is_raw=True)
        fields, body = read_as_sent(body)
        stream = bytes(fields.get("stream", b"")) == b"true"
        return Ask(model=_model(fields), stream=stream, fields=fields, body=body, is_raw=True)

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return OpaqueInspector()

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Usage and model where the body has them in OpenAI's places. Never raises."""
        if body[:64].lstrip()[:1] != b"{":
            return WholeAnswer()
        answer = members(msgspec.Raw(body))
        reported = usage_from_raw(answer.get("usage"))
        return WholeAnswer(usage=reported.tokens, model=_model(answer), soft_errors=reported.soft_errors)


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

    def observe_plain(self, data: bytes, *, in_full: bool = False) -> tuple[int, int]:
        return 0, 0

    def closing(self) -> bytes:
        return b""


def _model(fields: Mapping[str, msgspec.Raw]) -> str:
    model = text(fields.get("model"))
    return model if len(model) <= MAX_MODEL_CHARS else ""


OPAQUE = Opaque()
