"""The figures of a usage report as an operator reads them: with units, never more exact than they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.utils.translation import gettext as _

from billing.core.money import usd_text
from billing.models import FIRST_EVENT_BOUNDS_MS
from billing.selectors.reports import UsageSums


@dataclass(frozen=True, slots=True)
class Cell:
    """note: in smaller print below."""

    title: str
    text: str
    note: str = ""


def report_cells(sums: UsageSums) -> tuple[Cell, ...]:
    tokens = _("cached %(cached)s · written %(written)s") % {
        "cached": _number(sums.cached_input),
        "written": _number(sums.cache_write),
    }
    return (
        Cell(_("Requests"), _number(sums.requests), _incomplete(sums)),
        Cell(_("Success"), _percent(sums.success_share)),
        Cell(_("Input tokens"), _number(sums.input), tokens),
        Cell(_("Output tokens"), _number(sums.output), _output_note(sums)),
        Cell(_("Charged (USD)"), usd_text(sums.charged_nano)),
        Cell(_("Operator cost (USD)"), usd_text(sums.operator_cost_nano)),
        Cell(_("Margin (USD)"), usd_text(sums.margin_nano)),
        Cell(_("Estimated"), _percent(sums.estimated_share)),
        Cell(_("Possible duplicates"), _number(sums.possible_duplicates)),
        Cell(_("First event p50"), bound_text(sums.first_event_ms(0.5))),
        Cell(_("First event p95"), bound_text(sums.first_event_ms(0.95))),
    )


def bound_text(milliseconds: float | None) -> str:
    """A bucket's upper bound, as no more than that is known."""
    if milliseconds is None:
        return "–"
    if math.isinf(milliseconds):
        return f"> {FIRST_EVENT_BOUNDS_MS[-1] / 1000:g} s"
    return f"≤ {milliseconds:g} ms" if milliseconds < 1000 else f"≤ {milliseconds / 1000:g} s"


def _incomplete(sums: UsageSums) -> str:
    return _("%(count)s broke off") % {"count": _number(sums.incomplete)} if sums.incomplete else ""


def _output_note(sums: UsageSums) -> str:
    parts = [_("reasoning %(count)s") % {"count": _number(sums.reasoning)}]
    if sums.images:
        parts.append(_("%(count)s pictures") % {"count": _number(sums.images)})
    return " · ".join(parts)


def _number(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
