"""Prices and group multipliers in the console."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures.

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from billing.admin.price_base import (
    STATE_FIELDSET,
    TERM_FIELDSETS,
    DatedAdmin,
    PricedAdmin,
    term_values,
    trimmed,
)
from billing.core.pricing import ONE
from billing.models import GroupMultiplier, Price
from billing.selectors.prices import multiplier_in_force
from billing.selectors.unpriced import unpriced_models
from billing.services.prices import group_multiplier_close, group_multiplier_set, price_close, price_set

_UNPRICED_SHOWN = 30


@admin.register(Price)
class PriceAdmin(PricedAdmin):
    list_display = (
        "model",
        "group",
        "effective_from",
        "shown_input",
        "shown_cached_input",
        "shown_output",
        "shown_per_call",
        "is_closed",
    )
    list_filter = ("is_closed", "group")
    list_before_template = "billing/unpriced_models.html"
    search_fields = ("model",)
    identity = ("model", "group", "effective_from")
    fieldsets = ((None, {"fields": identity}), *TERM_FIELDSETS, STATE_FIELDSET)
    actions = ("close_prices",)
    shown_input = trimmed("input")
    shown_cached_input = trimmed("cached_input")
    shown_output = trimmed("output")
    shown_per_call = trimmed("per_call")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Also tells what is served and has no price."""
        found = unpriced_models(timezone.now()) if self.has_view_permission(request) else ()
        context = {
            "unpriced": found[:_UNPRICED_SHOWN],
            "unpriced_more": max(len(found) - _UNPRICED_SHOWN, 0),
        }
        return super().changelist_view(request, (extra_context or {}) | context)

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> Price:
        return price_set(
            model=fields["model"],
            group=fields.get("group") or "",
            effective_from=fields["effective_from"],
            **term_values(fields),
        ).price

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> Price:
        row = Price.objects.get(pk=pk)
        return price_set(
            model=row.model,
            group=row.group,
            effective_from=row.effective_from,
            **term_values(fields, row),
        ).price

    def multiplier_shown(self, row: Price) -> Decimal:
        found = multiplier_in_force(row.group, timezone.now()) if row.group else None
        return ONE if found is None else found.multiplier

    @admin.action(description=_("Close chosen prices"), permissions=["change"])
    def close_prices(self, request: HttpRequest, rows: QuerySet[Price]) -> HttpResponse | None:
        return self.close_chosen(request, rows, lambda price: price_close(price=price))


@admin.register(GroupMultiplier)
class GroupMultiplierAdmin(DatedAdmin):
    list_display = ("group", "effective_from", "shown_multiplier", "is_closed")
    list_filter = ("is_closed", "group")
    search_fields = ("group",)
    identity = ("group", "effective_from")
    fieldsets = ((None, {"fields": (*identity, "multiplier")}), STATE_FIELDSET)
    actions = ("close_multipliers",)
    shown_multiplier = trimmed("multiplier", GroupMultiplier)

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> GroupMultiplier:
        return group_multiplier_set(
            group=fields["group"],
            multiplier=fields["multiplier"],
            effective_from=fields["effective_from"],
        ).multiplier

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> GroupMultiplier:
        row = GroupMultiplier.objects.get(pk=pk)
        return group_multiplier_set(
            group=row.group, multiplier=fields["multiplier"], effective_from=row.effective_from
        ).multiplier

    @admin.action(description=_("Close chosen multipliers"), permissions=["change"])
    def close_multipliers(self, request: HttpRequest, rows: QuerySet[GroupMultiplier]) -> HttpResponse | None:
        return self.close_chosen(request, rows, lambda row: group_multiplier_close(multiplier=row))
