"""API keys in the console: issued by the add form, shown once, closed for good."""

# ruff: noqa: ARG002, SLF001
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_admin.admin.base import ACCESS_STATUS_LABELS, LIMIT_FIELDS, ConfiguredAdmin
from channels_admin.models import ApiKey
from channels_admin.services import api_key_close, api_key_issue, api_key_update


@admin.register(ApiKey)
class ApiKeyAdmin(ConfiguredAdmin):
    list_display = ["name", "shown_prefix", "tenant", "shown_status", "expires_at", "created_at"]
    list_display_links = ["name", "shown_prefix"]
    list_filter = ["status", "tenant__group"]
    list_select_related = ["tenant"]
    search_fields = ["name", "prefix", "tenant__name"]
    autocomplete_fields = ["tenant"]
    fieldsets = [
        (None, {"fields": ["tenant", "name", "expires_at"]}),
        (_("Restrictions"), {"fields": ["allowed_models", "allowed_networks"]}),
        (_("Limits"), {"fields": LIMIT_FIELDS}),
    ]
    lines_fields = ("allowed_models", "allowed_networks")
    actions = ["close_api_keys"]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        return ["tenant"] if obj else []

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> ApiKey:
        rest = {name: value for name, value in fields.items() if name != "tenant"}
        api_key, plain = api_key_issue(tenant_id=fields["tenant"].pk, **rest)
        # For this one answer only: neither session nor messages may hold it.
        request.META["sluice.issued_api_key"] = plain
        return api_key

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> ApiKey:
        return api_key_update(api_key_id=pk, **fields)

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Shows the key in the answer to the form itself, so that nothing ever stores it."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("API key issued"),
            "opts": self.model._meta,
            "api_key": obj,
            "plain": request.META.pop("sluice.issued_api_key"),
            "list_url": reverse("admin:channels_admin_apikey_changelist"),
        }
        response = TemplateResponse(request, "channels_admin/api_key_issued.html", context)
        add_never_cache_headers(response)
        return response

    @display(description=_("key"), ordering="prefix")
    def shown_prefix(self, api_key: ApiKey) -> str:
        return f"{api_key.prefix}…"

    @display(description=_("status"), ordering="status", label=ACCESS_STATUS_LABELS)
    def shown_status(self, api_key: ApiKey) -> tuple[str, str]:
        return api_key.status, api_key.get_status_display()

    @admin.action(description=_("Close chosen API keys"), permissions=["change"])
    def close_api_keys(self, request: HttpRequest, rows: QuerySet[ApiKey]) -> HttpResponse | None:
        consequence = _("%(count)d API keys stop working within a second. This cannot be undone.")
        page = self.confirm_close(request, rows, consequence % {"count": rows.count()})
        if page is None:
            self.apply_to_each(request, rows, lambda pk: api_key_close(api_key_id=pk), str(_("Closed")))
        return page
