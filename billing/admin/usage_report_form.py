"""What a usage report is asked for: range, grouping, narrowing. Bad input is told at its field."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from billing.selectors.reports import BadRange, Grouping, ReportQuery

DEFAULT_DAYS = 30
_ID_MAX = 2**63 - 1
GROUPINGS = [
    (Grouping.DAY.value, _("Day")),
    (Grouping.HOUR.value, _("Hour")),
    (Grouping.TENANT.value, _("Tenant")),
    (Grouping.API_KEY.value, _("API key")),
    (Grouping.MODEL.value, _("Model")),
    (Grouping.CHANNEL.value, _("Channel")),
]
NARROWED = {
    Grouping.TENANT: "tenant_id",
    Grouping.API_KEY: "api_key_id",
    Grouping.CHANNEL: "channel_id",
    Grouping.MODEL: "model",
}
"""Grouping → the parameter that narrows a report to one of its lines."""


def _date(label: Any) -> forms.DateField:
    widget = forms.DateInput(format="%Y-%m-%d", attrs={"type": "date", "class": "console-input"})
    return forms.DateField(label=label, required=False, widget=widget, input_formats=["%Y-%m-%d"])


def _id() -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=_ID_MAX, widget=forms.HiddenInput)


class UsageReportForm(forms.Form):
    """`query` is the report asked for once `is_valid()`. What is left out: the last 30 days, by day."""

    first = _date(_("From (UTC)"))
    last = _date(_("To, included"))
    by = forms.ChoiceField(
        label=_("Group by"),
        required=False,
        choices=GROUPINGS,
        widget=forms.Select(attrs={"class": "console-input"}),
    )
    tenant_id = _id()
    api_key_id = _id()
    channel_id = _id()
    model = forms.CharField(required=False, max_length=200, strip=False, widget=forms.HiddenInput)

    query: ReportQuery

    def __init__(self, asked: Mapping[str, Any]) -> None:
        today = timezone.now().date()
        start = today - datetime.timedelta(days=DEFAULT_DAYS - 1)
        usual = {"first": start.isoformat(), "last": today.isoformat(), "by": Grouping.DAY.value}
        super().__init__({**usual, **{name: value for name, value in asked.items() if value != ""}})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            self.query = ReportQuery(
                first=cleaned["first"],
                last=cleaned["last"],
                by=Grouping(cleaned["by"]),
                tenant_id=cleaned["tenant_id"],
                api_key_id=cleaned["api_key_id"],
                channel_id=cleaned["channel_id"],
                model=cleaned["model"] or None,
            )
        except BadRange as error:
            self.add_error("last", str(error))
        return cleaned
