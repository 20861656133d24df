"""What the operator pays, in the console."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from billing.admin.price_base import STATE_FIELDSET, TERM_FIELDSETS, PricedAdmin, term_values, trimmed
from billing.models import CostPrice
from billing.services.prices import cost_price_close, cost_price_set


@admin.register(CostPrice)
class CostPriceAdmin(PricedAdmin):
    list_display = (
        "model",
        "channel",
        "effective_from",
        "shown_input",
        "shown_cached_input",
        "shown_output",
        "shown_per_call",
        "is_closed",
    )
    list_filter = ("is_closed", "channel")
    list_select_related = ("channel",)
    search_fields = ("model", "channel__name")
    identity = ("channel", "model", "effective_from")
    fieldsets = ((None, {"fields": identity}), *TERM_FIELDSETS, STATE_FIELDSET)
    actions = ("close_cost_prices",)
    shown_input = trimmed("input")
    shown_cached_input = trimmed("cached_input")
    shown_output = trimmed("output")
    shown_per_call = trimmed("per_call")

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> CostPrice:
        return cost_price_set(
            channel_id=fields["channel"].pk,
            model=fields["model"],
            effective_from=fields["effective_from"],
            **term_values(fields),
        ).cost_price

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> CostPrice:
        row = CostPrice.objects.get(pk=pk)
        return cost_price_set(
            channel_id=row.channel_id,
            model=row.model,
            effective_from=row.effective_from,
            **term_values(fields, row),
        ).cost_price

    @admin.action(description=_("Close chosen cost prices"), permissions=["change"])
    def close_cost_prices(self, request: HttpRequest, rows: QuerySet[CostPrice]) -> HttpResponse | None:
        return self.close_chosen(request, rows, lambda row: cost_price_close(cost_price=row))
