"""Model routes in the console: set, changed, and closed for good."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_admin.admin.base import ConfiguredAdmin, OpenRowForm
from channels_admin.models import ModelRoute
from channels_admin.services import model_route_close, model_route_set, model_route_update


@admin.register(ModelRoute)
class ModelRouteAdmin(ConfiguredAdmin):
    form = OpenRowForm
    list_display = ["model", "shown_group", "is_artefact", "shown_fallbacks", "hedge_after_ms", "policy"]
    list_filter = ["is_artefact", "group"]
    list_select_related = ["policy"]
    search_fields = ["model", "group"]
    autocomplete_fields = ["policy"]
    lines_fields = ("fallback_models",)
    actions = ["close_model_routes"]
    fieldsets = [
        (None, {"fields": ["model", "group", "policy"]}),
        (_("Pictures"), {"fields": ["is_artefact"]}),
        (
            _("When it fails or is slow"),
            {"fields": ["fallback_models", "hedge_after_ms", "degrade_to_non_stream"]},
        ),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelRoute]:
        rows: QuerySet[ModelRoute] = super().get_queryset(request)
        return rows.filter(is_closed=False)

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> ModelRoute:
        return model_route_set(**fields)

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> ModelRoute:
        return model_route_update(route_id=pk, **fields)

    @display(description=_("group"), ordering="group")
    def shown_group(self, route: ModelRoute) -> str:
        return route.group or str(_("all"))

    @display(description=_("fallback models"))
    def shown_fallbacks(self, route: ModelRoute) -> str:
        return ", ".join(route.fallback_models)

    @admin.action(description=_("Close chosen model routes"), permissions=["change"])
    def close_model_routes(self, request: HttpRequest, rows: QuerySet[ModelRoute]) -> HttpResponse | None:
        consequence = _("%(count)d model routes hold no more.") % {"count": rows.count()}
        page = self.confirm_close(request, rows, consequence)
        if page is None:
            self.apply_to_each(request, rows, lambda pk: model_route_close(route_id=pk), str(_("Closed")))
        return page
