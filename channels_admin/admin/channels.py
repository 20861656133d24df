"""Channels in the console: list, form in sections, upstream keys beside it."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.decorators import display

from channels_admin.admin.base import CONCURRENCY_FIELDS, ROUTE_STATUS_LABELS, ConfiguredAdmin
from channels_admin.admin.filters import GroupFilter, ModelFilter, TagFilter
from channels_admin.admin.health import HealthAdmin
from channels_admin.admin.upstream_keys import PASTED, pasted_keys_check, pasted_keys_field, tell_added
from channels_admin.health import RouteKind
from channels_admin.models import Channel, UpstreamKey
from channels_admin.services import channel_create, channel_set_status, channel_update, upstream_keys_add
from channels_admin.statuses import RouteStatus

MODELS_SHOWN = 3


if TYPE_CHECKING:
    ChannelModelForm = forms.ModelForm[Channel]
else:
    ChannelModelForm = forms.ModelForm


class ChannelForm(ChannelModelForm):
    pasted_keys = pasted_keys_field(required=False)

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if cleaned and cleaned.get(PASTED) and cleaned.get("kind"):
            try:
                pasted_keys_check(cleaned[PASTED], cleaned["kind"])
            except ValidationError as error:
                self.add_error(PASTED, error)
        return cleaned


class UpstreamKeyInline(TabularInline):
    """Read-only: keys are pasted into the form above and switched in their own list."""

    model = UpstreamKey
    fields = ["label", "status", "status_reason", "status_changed_at"]
    readonly_fields = fields
    show_change_link = True
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Channel | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: UpstreamKey | None = None) -> bool:
        return False


@admin.register(Channel)
class ChannelAdmin(HealthAdmin, ConfiguredAdmin):
    route_kind = RouteKind.CHANNEL
    form = ChannelForm
    list_display = [
        "name",
        "shown_status",
        "kind",
        "shown_models",
        "priority",
        "weight",
        "enabled_keys",
        "policy",
        "status_reason",
    ]
    list_editable = ["priority", "weight"]
    list_filter = ["status", "kind", GroupFilter, TagFilter, ModelFilter]
    list_select_related = ["policy"]
    search_fields = ["name", "base_url"]
    lines_fields = ("models", "groups", "tags")
    map_fields = ("model_mapping", "header_overrides", "parameter_overrides")
    readonly_fields = ["status", "status_reason", "status_changed_at", "created_at"]
    inlines = [UpstreamKeyInline]
    actions = ["enable_channels", "disable_channels", "clear_cooldowns", "close_channels"]
    fieldsets = [
        (_("Connection"), {"fields": ["name", "kind", "base_url", "proxy_url", PASTED, "key_mode"]}),
        (
            _("Models and mapping"),
            {"fields": ["models", "model_mapping", "groups", "tags", "priority", "weight"]},
        ),
        (
            _("Stream policy and timeouts"),
            {
                "fields": [
                    "policy",
                    "connect_timeout_seconds",
                    "non_stream_timeout_seconds",
                    "request_stream_usage",
                    "charge_input_on_leave",
                ]
            },
        ),
        (_("Limits"), {"fields": CONCURRENCY_FIELDS}),
        (_("Overrides"), {"fields": ["header_overrides", "parameter_overrides"]}),
    ]
    status_section = (
        _("Status"),
        {"fields": ["status", "status_reason", "status_changed_at", "created_at"]},
    )

    def get_fieldsets(self, request: HttpRequest, obj: Channel | None = None) -> list[Any]:
        return [*self.fieldsets, self.status_section] if obj else list(self.fieldsets)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Channel]:
        enabled = Count("upstream_keys", filter=Q(upstream_keys__status=RouteStatus.ENABLED.value))
        rows: QuerySet[Channel] = super().get_queryset(request)
        return rows.annotate(enabled_key_count=enabled, key_count=Count("upstream_keys"))

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> Channel:
        return channel_create(**fields)

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> Channel:
        return channel_update(channel_id=pk, **fields)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        pasted = form.cleaned_data.get(PASTED)
        if pasted:
            tell_added(request, upstream_keys_add(channel_id=obj.pk, plains=pasted))

    @display(description=_("status"), ordering="status", label=ROUTE_STATUS_LABELS)
    def shown_status(self, channel: Channel) -> tuple[str, str]:
        return channel.status, channel.get_status_display()

    @display(description=_("models"))
    def shown_models(self, channel: Channel) -> str:
        more = len(channel.models) - MODELS_SHOWN
        shown = ", ".join(channel.models[:MODELS_SHOWN])
        return f"{shown} +{more}" if more > 0 else shown

    @display(description=_("keys"), ordering="enabled_key_count")
    def enabled_keys(self, channel: Any) -> str:
        return f"{channel.enabled_key_count} / {channel.key_count}"

    @admin.action(description=_("Enable chosen channels"), permissions=["change"])
    def enable_channels(self, request: HttpRequest, rows: QuerySet[Channel]) -> None:
        self._set_status(request, rows, RouteStatus.ENABLED, _("Enabled"))

    @admin.action(description=_("Disable chosen channels"), permissions=["change"])
    def disable_channels(self, request: HttpRequest, rows: QuerySet[Channel]) -> None:
        self._set_status(request, rows, RouteStatus.DISABLED, _("Disabled"))

    @admin.action(description=_("Close chosen channels"), permissions=["change"])
    def close_channels(self, request: HttpRequest, rows: QuerySet[Channel]) -> HttpResponse | None:
        serving = rows.filter(status=RouteStatus.ENABLED.value).count()
        consequence = _("%(count)d of them serve requests now; running answers are finished.")
        page = self.confirm_close(request, rows, consequence % {"count": serving})
        if page is None:
            self._set_status(request, rows, RouteStatus.CLOSED, _("Closed"))
        return page

    def _set_status(
        self, request: HttpRequest, rows: QuerySet[Channel], status: RouteStatus, done: Any
    ) -> None:
        self.apply_to_each(
            request, rows, lambda pk: channel_set_status(channel_id=pk, status=status), str(done)
        )
