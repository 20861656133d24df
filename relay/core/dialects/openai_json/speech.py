"""Text to speech: sound comes back, byte for byte; or events with pieces of it, if the client asks for them.

The usage is in the request: the characters to be spoken. Must not keep text or sound.
"""

import msgspec

from relay.core.dialects.as_sent import AsSent, read_as_sent
from relay.core.dialects.base import Ask, StreamInspector, WholeAnswer
from relay.core.dialects.members import text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_json.events import JsonEventsInspector
from relay.core.dialects.request_fields import Fields, given, invalid, required_model
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage

_ENDS = frozenset({"speech.audio.done"})
_read_text = msgspec.json.Decoder(str).decode


class Speech(AsSent):
    """The `Dialect` of `audio/speech`."""

    name = "openai_speech"

    def parse_request(self, body: bytes) -> Ask:
        fields, body = read_as_sent(body)
        return Ask(
            model=required_model(fields),
            stream=text(fields.get("stream_format")) == "sse",
            fields=fields,
            body=body,
            is_raw=True,
            known_usage=TokenUsage(characters=_characters(fields)),
        )

    def stream_inspector(self, ask: Ask) -> StreamInspector:  # noqa: ARG002 - the protocol's signature
        return JsonEventsInspector(_ENDS, 1, usage_from_raw)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """JSON is no sound: an error, or something that passes as it is."""
        return WholeAnswer(error=find_error(value(body)))


def _characters(fields: Fields) -> int:
    raw = given(fields, "input")
    try:
        return len(_read_text(raw)) if raw is not None else 0
    except msgspec.MsgspecError:
        raise invalid("input", "a string") from None
