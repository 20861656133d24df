"""Speech to text: a form with a recording in; JSON, plain text, subtitles or a stream of text out.

Usage is tokens (gpt-4o-transcribe) or the length of the recording (whisper, also as `duration` of
`verbose_json`). Sources: https://platform.openai.com/docs/api-reference/audio/json-object and
/audio/verbose-json-object. Must not keep text.
"""

import math

import msgspec

from relay.core.dialects.as_sent import AsSent, read_as_sent
from relay.core.dialects.base import Ask, StreamInspector, WholeAnswer
from relay.core.dialects.counts import USAGE_ABSURD, Reported
from relay.core.dialects.members import answer_members, members, text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_json.events import JsonEventsInspector
from relay.core.dialects.openai_json.forms import read_form_ask
from relay.core.dialects.request_fields import flag, missing, required_model
from relay.core.dialects.upstream_errors import find_error
from relay.core.usage import TokenUsage

MAX_SECONDS = 10_000_000
"""Four months of sound in one file: more is no length but a broken upstream."""

_ENDS = frozenset({"transcript.text.done"})
_JSON_FORMATS = frozenset({"", "json", "verbose_json", "diarized_json"})


class Transcriptions(AsSent):
    """The `Dialect` of `audio/transcriptions` and `audio/translations`. Also `ReadsForms`."""

    name = "openai_transcriptions"

    def parse_request(self, body: bytes) -> Ask:
        """Some vendors take JSON with an address or base64 in the place of the file."""
        fields, body = read_as_sent(body)
        stream = flag(fields, "stream")
        is_raw = stream or text(fields.get("response_format")) not in _JSON_FORMATS
        return Ask(
            model=required_model(fields),
            stream=stream,
            has_streamed_form=is_raw,
            fields=fields,
            body=body,
            is_raw=is_raw,
        )

    def parse_form(self, body: bytes, content_type: str) -> Ask:
        form = read_form_ask(body, content_type)
        if not form.model:
            raise missing("model")
        is_raw = form.stream or text(form.fields.get("response_format")) not in _JSON_FORMATS
        return Ask(
            model=form.model,
            stream=form.stream,
            has_streamed_form=is_raw,
            fields=form.fields,
            body=body,
            is_form=True,
            model_span=form.model_span,
            prompt_bytes=form.prompt_bytes,
            is_raw=is_raw,
        )

    def stream_inspector(self, ask: Ask) -> StreamInspector:  # noqa: ARG002 - the protocol's signature
        return JsonEventsInspector(_ENDS, 1, recording_usage)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Raises ValueError when the body is no JSON object."""
        answer = answer_members(body)
        if "text" not in answer:
            found = find_error(value(body))
            if found is not None:
                return WholeAnswer(error=found)
        raw = answer.get("usage")
        reported = recording_usage(raw) if raw is not None else Reported()
        if reported.tokens is None and not reported.soft_errors:
            reported = _length(answer.get("duration"))
        return WholeAnswer(usage=reported.tokens, soft_errors=reported.soft_errors)


def recording_usage(raw: msgspec.Raw) -> Reported:
    """Of type `tokens`, or of type `duration`: then there are no tokens to be paid."""
    usage = members(raw)
    return _length(usage["seconds"]) if "seconds" in usage else usage_from_raw(raw)


def _length(raw: msgspec.Raw | None) -> Reported:
    """Seconds as a number, or as text: the API has sent both."""
    length = value(raw)
    if length is None:
        return Reported()
    try:
        seconds = float(length) if isinstance(length, int | float | str) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= MAX_SECONDS:
        return Reported(soft_errors=(USAGE_ABSURD,))
    return Reported(TokenUsage(input=0, output=0, audio_ms=round(seconds * 1_000)))
