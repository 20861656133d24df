"""Prices: another value closes the row and makes a new one, whoever changes it."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures.

from collections.abc import Mapping
from dataclasses import fields as parts_of
from dataclasses import replace
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from billing.core.prices import PriceParts
from billing.models import Price
from billing.services.prices import price_close, price_parts, price_set
from channels_admin.admin.base import ConfiguredAdmin

_PARTS = tuple(field.name for field in parts_of(PriceParts))
_IDENTITY = ("model", "group", "effective_from")


@admin.register(Price)
class PriceAdmin(ConfiguredAdmin):
    list_display = (
        "model",
        "group",
        "effective_from",
        "input",
        "cached_input",
        "output",
        "per_call",
        "is_closed",
    )
    list_filter = ("is_closed", "group")
    search_fields = ("model",)
    fieldsets = (
        (None, {"fields": ("model", "group", "effective_from")}),
        (_("USD per million tokens"), {"fields": tuple(name for name in _PARTS if name != "per_call")}),
        (_("USD per call"), {"fields": ("per_call",)}),
        (_("State"), {"fields": ("is_closed", "effective_to", "created_at")}),
    )
    readonly_fields = ("is_closed", "effective_to", "created_at")
    actions = ("close_prices",)

    def get_readonly_fields(self, request: HttpRequest, obj: Price | None = None) -> tuple[str, ...]:
        """What a price is for makes it that price; another start is another price."""
        return (*self.readonly_fields, *_IDENTITY) if obj else self.readonly_fields

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"effective_from": timezone.now().replace(second=0, microsecond=0)}

    def has_change_permission(self, request: HttpRequest, obj: Price | None = None) -> bool:
        return bool(super().has_change_permission(request, obj)) and not (obj and obj.is_closed)

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> Price:
        parts = PriceParts(**{name: fields.get(name) for name in _PARTS})
        return price_set(
            model=fields["model"],
            group=fields.get("group") or "",
            effective_from=fields["effective_from"],
            parts=parts,
        ).price

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> Price:
        row = Price.objects.get(pk=pk)
        changed = {name: value for name, value in fields.items() if name in _PARTS}
        return price_set(
            model=row.model,
            group=row.group,
            effective_from=row.effective_from,
            parts=replace(price_parts(row), **changed),
        ).price

    @admin.action(description=_("Close chosen prices"), permissions=["change"])
    def close_prices(self, request: HttpRequest, rows: QuerySet[Price]) -> HttpResponse | None:
        page = self.confirm_close(request, rows, str(_("Requests are no longer priced by them.")))
        if page is not None:
            return page
        chosen = list(rows)
        for price in chosen:
            price_close(price=price)
            self.log_change(request, price, str(_("Closed")))
        text = ngettext("%(count)d price closed.", "%(count)d prices closed.", len(chosen))
        self.message_user(request, text % {"count": len(chosen)}, messages.SUCCESS)
        return None
