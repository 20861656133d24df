"""The charts of a usage report as data for Chart.js, which the theme brings. Figures for the eye only."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from billing.core.money import NANO_PER_USD
from billing.selectors.reports import Grouping, Key, ReportQuery, UsageLine, UsageSums

BARS_MAX = 12
"""Of groups that are no time; the rest stands in the table."""
_GREY = "#9ca3af"
_OPTIONS = {
    "animation": False,
    "responsive": True,
    "maintainAspectRatio": False,
    "plugins": {"legend": {"display": True, "labels": {"color": _GREY, "boxWidth": 10, "boxHeight": 10}}},
}


@dataclass(frozen=True, slots=True)
class Chart:
    """data, options: JSON, as the theme's script reads them from the canvas."""

    title: str
    data: str
    options: str


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    colour: str
    values: list[float]


def usage_charts(query: ReportQuery, lines: Sequence[UsageLine], labels: Mapping[Key, str]) -> list[Chart]:
    """labels: what to call a line's key where its own text is none for people."""
    shown = _without_gaps(query, lines) if query.by is Grouping.DAY else list(lines[: _shown_max(query)])
    names = [labels.get(line.key) or str(line.key) for line in shown]
    sums = [line.sums for line in shown]
    failed = [float(one.requests - one.successes) for one in sums]
    requests = [
        Series(_("successful"), "#22c55e", [float(one.successes) for one in sums]),
        Series(_("not successful"), "#ef4444", failed),
    ]
    money = [
        Series(_("charged"), "#9333ea", [one.charged_nano / NANO_PER_USD for one in sums]),
        Series(_("operator cost"), "#f59e0b", [one.operator_cost_nano / NANO_PER_USD for one in sums]),
    ]
    return [
        _chart(_("Requests"), names, requests, is_stacked=True),
        _chart(_("Money (USD)"), names, money, is_stacked=False),
    ]


def _shown_max(query: ReportQuery) -> int | None:
    return None if query.by.is_time else BARS_MAX


def _without_gaps(query: ReportQuery, lines: Sequence[UsageLine]) -> list[UsageLine]:
    """A day without requests is a day all the same."""
    known = {line.key: line for line in lines}
    days = [query.first + datetime.timedelta(days=n) for n in range((query.last - query.first).days + 1)]
    return [known.get(day) or UsageLine(day, UsageSums()) for day in days]


def _chart(title: str, names: Sequence[str], series: Sequence[Series], *, is_stacked: bool) -> Chart:
    datasets = [{"label": one.label, "data": one.values, "backgroundColor": one.colour} for one in series]
    axis = {"stacked": is_stacked, "ticks": {"color": _GREY}, "grid": {}}
    options = {**_OPTIONS, "scales": {"x": axis, "y": {**axis, "beginAtZero": True}}}
    return Chart(title, json.dumps({"labels": list(names), "datasets": datasets}), json.dumps(options))
