"""The settings page as values: groups of flags, each flag with what holds and who said so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from channels_admin.admin.image_failover import FailoverCard, failover_card
from channels_admin.flags import (
    FLAGS,
    IMAGE_FAILOVER_FLAGS,
    Flag,
    FlagGroup,
    FlagSource,
    FlagState,
    flag_state,
)
from channels_admin.models import RuntimeFlag

SOURCE_LABELS = {
    FlagSource.DEFAULT.value: "info",
    FlagSource.ENVIRONMENT.value: "warning",
    FlagSource.CONSOLE.value: "success",
}


def flag_text(value: object) -> str:
    """A flag's value as the console shows it."""
    if isinstance(value, bool):
        return str(_("on") if value else _("off"))
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def row_state(row: RuntimeFlag) -> FlagState:
    return flag_state(FLAGS[row.name], row.value)


@dataclass(frozen=True, slots=True)
class FlagLine:
    """A row of the settings page. label: the colour of its source."""

    row: RuntimeFlag
    flag: Flag
    effective: str
    default: str
    state: FlagState
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class FlagSection:
    """failover: only in the section of image failover."""

    group: FlagGroup
    lines: tuple[FlagLine, ...]
    failover: FailoverCard | None


def flag_line(row: RuntimeFlag) -> FlagLine:
    state = row_state(row)
    return FlagLine(
        row=row,
        flag=state.flag,
        effective=flag_text(state.value),
        default=flag_text(state.flag.default),
        state=state,
        label=SOURCE_LABELS[state.source.value],
        url=reverse("admin:channels_admin_runtimeflag_change", args=[row.pk]),
    )


def flag_sections(rows: Sequence[RuntimeFlag]) -> list[FlagSection]:
    """rows: in the order of the table of flags, so that a group stays together."""
    sections = []
    for group, members in groupby(rows, key=lambda row: FLAGS[row.name].group):
        lines = tuple(flag_line(row) for row in members)
        is_failover = group is FlagGroup.IMAGE_FAILOVER
        card = (
            failover_card(RuntimeFlag.objects.filter(name__in=IMAGE_FAILOVER_FLAGS)) if is_failover else None
        )
        sections.append(FlagSection(group, lines, card))
    return sections
