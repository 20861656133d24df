"""Form fields of the console: lists one a line, JSON objects, pasted secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.validators import EMPTY_VALUES
from unfold.widgets import UnfoldAdminTextareaWidget

from channels_admin.middleware import is_key_of


class LinesField(forms.Field):
    """A list of texts, one a line; blank lines and outer spaces do not count."""

    widget = UnfoldAdminTextareaWidget

    def to_python(self, value: object) -> list[str]:
        if isinstance(value, list):
            return value
        lines = (line.strip() for line in str(value or "").splitlines())
        return [line for line in lines if line]

    def prepare_value(self, value: object) -> object:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: object, data: object) -> bool:
        return not self.disabled and self.to_python(initial) != self.to_python(data)


class MapField(forms.JSONField):
    """A JSON object; left empty it is an empty one, not null."""

    widget = UnfoldAdminTextareaWidget
    empty_values = [value for value in EMPTY_VALUES if value != {}]

    def to_python(self, value: Any) -> Any:
        parsed = super().to_python(value)
        return {} if parsed is None else parsed


class WriteOnlyTextarea(UnfoldAdminTextareaWidget):
    """Shows nothing of what was pasted, not even beside an error."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"autocomplete": "off", "spellcheck": "false", **(attrs or {})})

    def format_value(self, value: object) -> str:  # noqa: ARG002  Django's hook
        return ""


class CheckedAutocomplete(AutocompleteSelect):
    """Shows no choice for a value that is no id; Django's looks it up as it came and crashes."""

    def optgroups(self, name: str, value: Sequence[str], attr: dict[str, Any] | None = None) -> Any:
        model = self.field.remote_field.model
        return super().optgroups(name, [text for text in value if not text or is_key_of(model, text)], attr)
