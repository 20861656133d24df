"""Stream policies in the console."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_admin.admin.base import ConfiguredAdmin
from channels_admin.models import StreamPolicy
from channels_admin.services import stream_policy_create, stream_policy_update

if TYPE_CHECKING:
    StreamPolicyModelForm = forms.ModelForm[StreamPolicy]
else:
    StreamPolicyModelForm = forms.ModelForm


class StreamPolicyForm(StreamPolicyModelForm):
    def _get_validation_exclusions(self) -> set[str]:
        """Not "one default at most": saving takes that from the other policy."""
        kept: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]  # not in django-stubs
        return kept | {"is_default"}


@admin.register(StreamPolicy)
class StreamPolicyAdmin(ConfiguredAdmin):
    form = StreamPolicyForm
    list_display = ["name", "is_default", "stream_policy", "used_by", "total_timeout_seconds"]
    list_filter = ["stream_policy", "is_default"]
    search_fields = ["name"]
    fieldsets = [
        (None, {"fields": ["name", "is_default", "stream_policy"]}),
        (
            _("Timers"),
            {
                "fields": [
                    "header_timeout_seconds",
                    "first_event_timeout_seconds",
                    "idle_timeout_seconds",
                    "image_idle_timeout_seconds",
                    "event_idle_timeout_seconds",
                    "total_timeout_seconds",
                ]
            },
        ),
        (_("Start of the answer"), {"fields": ["early_commit_seconds", "preamble_hold_ms"]}),
        (_("Guards"), {"fields": ["tool_call_guard", "disconnect_policy"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[StreamPolicy]:
        rows: QuerySet[StreamPolicy] = super().get_queryset(request)
        return rows.annotate(channel_count=Count("channels"))

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> StreamPolicy:
        return stream_policy_create(**fields)

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> StreamPolicy:
        return stream_policy_update(policy_id=pk, **fields)

    @display(description=_("channels"), ordering="channel_count")
    def used_by(self, policy: Any) -> int:
        return int(policy.channel_count)
