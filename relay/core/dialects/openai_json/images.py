"""Image generations, edits and variations: JSON or form in, JSON or streamed partial pictures out.

A stream is `image_generation.partial_image` events and one `….completed` with a usage for each picture; its
usage is that of the whole request, so the last one counts. Must not keep pictures.
"""

import msgspec

from relay.core.dialects.as_sent import AsSent, read_as_sent
from relay.core.dialects.base import Ask, StreamInspector, WholeAnswer
from relay.core.dialects.counts import Reported
from relay.core.dialects.members import answer_members, is_set, items, members, text, value
from relay.core.dialects.openai_chat.usage import usage_from_raw
from relay.core.dialects.openai_json.events import PicturesInspector
from relay.core.dialects.openai_json.forms import read_form_ask
from relay.core.dialects.request_fields import flag, optional_model
from relay.core.dialects.upstream_errors import find_error
from relay.core.limits_asked import limits_asked
from relay.core.usage import TokenUsage, merged

_ENDS = frozenset({"image_generation.completed", "image_edit.completed"})


class Images(AsSent):
    """The `Dialect` of `images/…`. Also `ReadsForms`."""

    name = "openai_images"

    def parse_request(self, body: bytes) -> Ask:
        fields, body = read_as_sent(body)
        model, stream = optional_model(fields), flag(fields, "stream")
        return Ask(model=model, stream=stream, fields=fields, body=body, is_raw=True)

    def parse_form(self, body: bytes, content_type: str) -> Ask:
        form = read_form_ask(body, content_type)
        return Ask(
            model=form.model,
            stream=form.stream,
            fields=form.fields,
            body=body,
            is_form=True,
            model_span=form.model_span,
            prompt_bytes=form.prompt_bytes,
            is_raw=True,
        )

    def stream_inspector(self, ask: Ask) -> StreamInspector:
        return PicturesInspector(_ENDS, limits_asked(ask.fields).choices, image_usage)

    def inspect_whole(self, body: bytes) -> WholeAnswer:
        """Raises ValueError when the body is neither a list of pictures nor an error."""
        answer = answer_members(body)
        pictures = items(answer.get("data"))
        if pictures is None:
            found = find_error(value(body))
            if found is None:
                raise ValueError("no list of pictures")
            return WholeAnswer(error=found)
        reported = image_usage(answer.get("usage"))
        count = TokenUsage(images=sum(map(_is_picture, pictures)))
        return WholeAnswer(
            usage=merged(reported.tokens, count),
            model=text(answer.get("model")),
            soft_errors=reported.soft_errors,
        )


def image_usage(raw: msgspec.Raw | None) -> Reported:
    """All output is picture where nothing else is said.

    Source: https://platform.openai.com/docs/api-reference/images/object, `usage.output_tokens`: "the number
    of image tokens in the output image"; later models tell text and image tokens apart.
    """
    reported = usage_from_raw(raw)
    tokens = reported.tokens
    if tokens is None or tokens.output is None or tokens.image_output is not None:
        return reported
    return Reported(msgspec.structs.replace(tokens, image_output=tokens.output), reported.soft_errors)


def _is_picture(raw: msgspec.Raw) -> bool:
    picture = members(raw)
    return is_set(picture.get("b64_json")) or is_set(picture.get("url"))
