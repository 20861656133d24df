"""Rows against what the file says of them: the same few steps for every noun. No writes."""

from collections.abc import Mapping

from django.db.models import Model

from gateway.provisioning.findings import shown

# Headers of one's own can hold credentials: their names tell enough.
_HIDDEN = frozenset({"header_overrides"})


def differing(row: Model, wanted: Mapping[str, object]) -> dict[str, object]:
    """The fields whose value is another one."""
    return {name: value for name, value in wanted.items() if getattr(row, name) != value}


def field_texts(wanted: Mapping[str, object]) -> list[str]:
    """For a new row: `priority 10`."""
    return [f"{name} {_shown(name, value)}" for name, value in sorted(wanted.items()) if name != "name"]


def change_texts(row: Model, wanted: Mapping[str, object]) -> list[str]:
    """`priority 10 → 20`; call it before the row is saved."""
    return [change_text(name, getattr(row, name), value) for name, value in sorted(wanted.items())]


def change_text(name: str, old: object, new: object) -> str:
    return f"{name} {_shown(name, old)} → {_shown(name, new)}"


def _shown(name: str, value: object) -> str:
    if name in _HIDDEN and isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: …" for key in value) + "}"
    return shown(value)
