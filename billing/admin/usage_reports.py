"""Usage reports: range, grouping, charts, table, CSV. Reads the roll-ups only; a permission of its own."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures.

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from billing.admin.base import RecordAdmin
from billing.admin.usage_cells import Cell, report_cells
from billing.admin.usage_charts import usage_charts
from billing.admin.usage_csv import csv_response
from billing.admin.usage_report_form import GROUPINGS, NARROWED, UsageReportForm
from billing.models import UsageDaily
from billing.selectors.report_names import names_of
from billing.selectors.reports import Grouping, Key, ReportQuery, UsageLine, usage_report

PERMISSION = "billing.view_usage_reports"
LINES_SHOWN = 200
HOURS_SHOWN = 31 * 24
LIST = "admin:billing_usagedaily_changelist"
CSV = "admin:billing_usagedaily_csv"


@dataclass(frozen=True, slots=True)
class ReportRow:
    """url: the report of this line alone; None where there is none."""

    name: str
    url: str | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    url: str


@admin.register(UsageDaily)
class UsageReportAdmin(RecordAdmin):
    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Of the report; a single roll-up row has no page."""
        return obj is None and bool(request.user.has_perm(PERMISSION))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.csv_view)
        return [path("csv/", view, name="billing_usagedaily_csv"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = UsageReportForm(request.GET.dict())
        context = {
            **self.admin_site.each_context(request),
            "title": _("Usage reports"),
            "form": form,
            "ranges": _ranges(request),
        }
        if form.is_valid():
            context |= _report(form.query, request)
        return TemplateResponse(request, "billing/usage_report.html", context)

    def csv_view(self, request: HttpRequest) -> HttpResponseBase:
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = UsageReportForm(request.GET.dict())
        if form.is_valid():
            return csv_response(form.query)
        reasons = " ".join(str(reason) for reasons in form.errors.values() for reason in reasons)
        return HttpResponse(reasons, status=400, content_type="text/plain; charset=utf-8")


def _report(query: ReportQuery, request: HttpRequest) -> dict[str, Any]:
    shown = HOURS_SHOWN if query.by.is_time else LINES_SHOWN
    report = usage_report(query, limit=shown + 1)
    is_cut, lines = len(report.lines) > shown, report.lines[:shown]
    labels = _labels(query.by, lines)
    return {
        "by_label": dict(GROUPINGS)[query.by.value],
        "total": report_cells(report.total) if lines else (),
        "rows": [_row(line, labels, query, request) for line in lines],
        "charts": usage_charts(query, lines, labels) if lines else [],
        "is_cut": is_cut,
        "chips": _chips(query, request),
        "csv_url": f"{reverse(CSV)}?{request.GET.urlencode()}",
    }


def _labels(by: Grouping, lines: Sequence[UsageLine]) -> dict[Key, str]:
    names = names_of(by, [line.key for line in lines if isinstance(line.key, int)])
    return {line.key: _label(line.key, names) for line in lines}


def _label(key: Key, names: Mapping[int, str]) -> str:
    if isinstance(key, int):
        return names.get(key, f"#{key}")
    if isinstance(key, datetime.datetime):
        return f"{key:%Y-%m-%d %H:00}"
    return str(key) or _("no model")


def _row(line: UsageLine, labels: Mapping[Key, str], query: ReportQuery, request: HttpRequest) -> ReportRow:
    return ReportRow(labels[line.key], _narrower(line.key, query, request), report_cells(line.sums))


def _narrower(key: Key, query: ReportQuery, request: HttpRequest) -> str | None:
    """A day opens its hours, anything else its days; an hour opens nothing."""
    if isinstance(key, datetime.datetime) or key == "":
        return None
    if isinstance(key, datetime.date):
        return _url(request, first=key.isoformat(), last=key.isoformat(), by=Grouping.HOUR.value)
    return _url(request, **{NARROWED[query.by]: str(key), "by": Grouping.DAY.value})


def _chips(query: ReportQuery, request: HttpRequest) -> list[Link]:
    """What the report is narrowed to; each link widens it again."""
    chips = []
    for by, field in NARROWED.items():
        value = getattr(query, field)
        if value is not None:
            name = _label(value, names_of(by, [value]) if isinstance(value, int) else {})
            chips.append(Link(name, _url(request, **{field: ""})))
    return chips


def _ranges(request: HttpRequest) -> list[Link]:
    today = timezone.now().date()
    starts = {
        _("Today"): today,
        _("7 days"): today - datetime.timedelta(days=6),
        _("30 days"): today - datetime.timedelta(days=29),
        _("This month"): today.replace(day=1),
        _("A year"): today - datetime.timedelta(days=364),
    }
    return [
        Link(label, _url(request, first=start.isoformat(), last=today.isoformat()))
        for label, start in starts.items()
    ]


def _url(request: HttpRequest, **changes: str) -> str:
    asked = {**request.GET.dict(), **changes}
    return f"{reverse(LIST)}?{urlencode({name: value for name, value in asked.items() if value != ''})}"
