"""Image failover as the console shows it: three flags, one switch, and a dialog that says what it may cost.

The switch posts here; the settings page (`runtime_flags`) shows what `failover_card` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from channels_admin.flags import FLAGS, IMAGE_FAILOVER_FLAGS, FlagState, flag_state
from channels_admin.models import RuntimeFlag
from channels_admin.services import image_failover_clear, image_failover_set
from channels_admin.services.runtime_flags import (
    IMAGE_FAILOVER_AMBIGUOUS,
    IMAGE_FAILOVER_SWITCH,
    IMAGE_FAILOVER_UNCERTAIN,
)

Text = str | Promise

OFF = _("Off: each image request is sent to one upstream, once.")
REFUSED_ONLY = _("On: repeats what an upstream refused before it drew. Nothing is charged twice.")
ALSO_AMBIGUOUS = _("On, also after 5xx: a picture may be charged twice.")
ALSO_UNCERTAIN = _(
    "On, also after 5xx, timeouts, 504, cuts and empty answers: pictures will be charged twice."
)


@dataclass(frozen=True, slots=True)
class RangeBox:
    """One box of the dialog, ticked only by who pins it or has ticked it before (switch on)."""

    field: str
    label: Text
    consequence: Text
    is_ticked: bool
    is_pinned: bool


@dataclass(frozen=True, slots=True)
class FailoverCard:
    """after_clearing: what would hold without the console's values; None = the console has saved none."""

    is_on: bool
    words: Text
    is_pinned: bool
    boxes: tuple[RangeBox, ...]
    after_clearing: Text | None


def failover_card(rows: Iterable[RuntimeFlag]) -> FailoverCard:
    """rows: those of the three flags; one that is missing counts as cleared."""
    by_name = {row.name: row for row in rows}
    states = {name: flag_state(FLAGS[name], _stored(by_name, name)) for name in IMAGE_FAILOVER_FLAGS}
    switch = states[IMAGE_FAILOVER_SWITCH]
    return FailoverCard(
        is_on=bool(switch.value),
        words=failover_words(states),
        is_pinned=switch.is_pinned,
        boxes=tuple(_box(*row, states) for row in _BOXES),
        after_clearing=_after_clearing(states),
    )


def failover_words(states: Mapping[str, FlagState]) -> Text:
    """What the three flags together mean."""
    if not states[IMAGE_FAILOVER_SWITCH].value:
        return OFF
    if states[IMAGE_FAILOVER_UNCERTAIN].value:
        return ALSO_UNCERTAIN
    return ALSO_AMBIGUOUS if states[IMAGE_FAILOVER_AMBIGUOUS].value else REFUSED_ONLY


def failover_apply(form: QueryDict, changed_by: str) -> Text:
    """Does what the posted form asks; returns what was done. Raises ValidationError (pinned)."""
    match form.get("do"):
        case "on":
            ambiguous, uncertain = "ambiguous" in form, "uncertain" in form
            image_failover_set(enabled=True, ambiguous=ambiguous, uncertain=uncertain, changed_by=changed_by)
            return _("Image failover is on.")
        case "clear":
            image_failover_clear(changed_by=changed_by)
            return _("The console's values for image failover are cleared.")
        case _:
            image_failover_set(enabled=False, changed_by=changed_by)
            return _("Image failover is off, and so are both of its ranges.")


_BOXES = (
    (
        IMAGE_FAILOVER_AMBIGUOUS,
        "ambiguous",
        _("Also after 500, 502 and every other 5xx"),
        _("The upstream may have drawn before it failed: a picture may be charged twice."),
    ),
    (
        IMAGE_FAILOVER_UNCERTAIN,
        "uncertain",
        _("Also after timeouts, 504, cut connections and empty 2xx answers (includes the 5xx)"),
        _("The upstream has probably drawn and charges for it: pictures will be charged twice."),
    ),
)


def _box(name: str, field: str, label: Text, consequence: Text, states: Mapping[str, FlagState]) -> RangeBox:
    state = states[name]
    is_chosen = state.is_pinned or bool(states[IMAGE_FAILOVER_SWITCH].value)
    return RangeBox(field, label, consequence, is_chosen and bool(state.value), state.is_pinned)


def _after_clearing(states: Mapping[str, FlagState]) -> Text | None:
    if all(state.stored is None or state.is_pinned for state in states.values()):
        return None
    return failover_words({name: flag_state(FLAGS[name], None) for name in IMAGE_FAILOVER_FLAGS})


def _stored(rows: Mapping[str, RuntimeFlag], name: str) -> object | None:
    row = rows.get(name)
    return row.value if row else None
