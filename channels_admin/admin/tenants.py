"""Tenants in the console."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_admin.admin.base import ACCESS_STATUS_LABELS, LIMIT_FIELDS, ConfiguredAdmin
from channels_admin.models import ApiKey, Tenant
from channels_admin.services import tenant_create, tenant_set_status, tenant_update
from channels_admin.statuses import AccessStatus


@admin.register(Tenant)
class TenantAdmin(ConfiguredAdmin):
    list_display = ["name", "group", "shown_status", "active_api_keys", "created_at"]
    list_filter = ["status", "group"]
    search_fields = ["name"]
    fields = ["name", "group", *LIMIT_FIELDS, "status", "created_at"]
    readonly_fields = ["status", "created_at"]
    actions = ["close_tenants", "reopen_tenants"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        active = Count("api_keys", filter=Q(api_keys__status=AccessStatus.ACTIVE.value))
        rows: QuerySet[Tenant] = super().get_queryset(request)
        return rows.annotate(active_key_count=active)

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> Tenant:
        return tenant_create(**fields)

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> Tenant:
        return tenant_update(tenant_id=pk, **fields)

    @display(description=_("status"), ordering="status", label=ACCESS_STATUS_LABELS)
    def shown_status(self, tenant: Tenant) -> tuple[str, str]:
        return tenant.status, tenant.get_status_display()

    @display(description=_("active API keys"), ordering="active_key_count")
    def active_api_keys(self, tenant: Any) -> int:
        return int(tenant.active_key_count)

    @admin.action(description=_("Close chosen tenants"), permissions=["change"])
    def close_tenants(self, request: HttpRequest, rows: QuerySet[Tenant]) -> HttpResponse | None:
        keys = ApiKey.objects.filter(tenant__in=rows.values("pk"), status=AccessStatus.ACTIVE.value).count()
        consequence = _("%(count)d active API keys stop working within a second.") % {"count": keys}
        page = self.confirm_close(request, rows, consequence)
        if page is None:
            self._set_status(request, rows, AccessStatus.CLOSED, _("Closed"))
        return page

    @admin.action(description=_("Reopen chosen tenants"), permissions=["change"])
    def reopen_tenants(self, request: HttpRequest, rows: QuerySet[Tenant]) -> None:
        self._set_status(request, rows, AccessStatus.ACTIVE, _("Reopened"))

    def _set_status(
        self, request: HttpRequest, rows: QuerySet[Tenant], status: AccessStatus, done: Any
    ) -> None:
        self.apply_to_each(
            request, rows, lambda pk: tenant_set_status(tenant_id=pk, status=status), str(done)
        )
