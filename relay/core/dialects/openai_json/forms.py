"""The few fields of a multipart form that the relay reads, as if they had stood in a JSON body."""

from collections.abc import Iterable, Mapping

import msgspec

from relay.core.dialects.request_fields import checked_model, invalid
from relay.core.estimate import BYTES_PER_TOKEN, MEDIA_TOKENS
from relay.core.multipart import FormField, read_form

_TRUE = frozenset({"true", "1", "yes", "on"})
_FIELDS = ("model", "stream", "n", "size", "quality", "response_format")


class FormAsk(msgspec.Struct, frozen=True):
    """fields: texts as JSON strings, `n` as a number. model_span, prompt_bytes: see `base.Ask`."""

    model: str
    stream: bool
    fields: dict[str, msgspec.Raw]
    model_span: tuple[int, int] | None
    prompt_bytes: int


def read_form_ask(body: bytes, content_type: str) -> FormAsk:
    """Raises `Refusal` (400) naming the field."""
    read = read_form(body, content_type, _FIELDS)
    form = read.fields
    model = form.get("model")
    return FormAsk(
        model=checked_model(model.text) if model is not None else "",
        stream="stream" in form and form["stream"].text.strip().lower() in _TRUE,
        fields=dict(_as_json(form)),
        model_span=(model.start, model.end) if model is not None and model.text else None,
        prompt_bytes=read.text_bytes + read.files * MEDIA_TOKENS * BYTES_PER_TOKEN,
    )


def _as_json(form: Mapping[str, FormField]) -> Iterable[tuple[str, msgspec.Raw]]:
    for name, field in form.items():
        if name == "n":
            if not (field.text.isascii() and field.text.isdigit()):
                raise invalid("n", "a positive integer")
            yield name, msgspec.Raw(b"%d" % int(field.text))
        else:
            yield name, msgspec.Raw(msgspec.json.encode(field.text))
