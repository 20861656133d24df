"""Upstream keys in the console: pasted, never shown again, switched on and off."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from channels_admin.admin.base import CONCURRENCY_FIELDS, ROUTE_STATUS_LABELS, ConfiguredAdmin, adopt
from channels_admin.admin.fields import LinesField, WriteOnlyTextarea
from channels_admin.admin.health import HealthAdmin
from channels_admin.health import RouteKind
from channels_admin.models import UpstreamKey
from channels_admin.services import upstream_key_set_status, upstream_key_update, upstream_keys_add
from channels_admin.services.upstream_keys import UpstreamKeysAdded, upstream_key_check
from channels_admin.statuses import RouteStatus

PASTED = "pasted_keys"


def pasted_keys_field(*, required: bool) -> LinesField:
    return LinesField(
        label=_("New upstream keys"),
        required=required,
        widget=WriteOnlyTextarea(),
        help_text=_("One a line. They are sealed and never shown again."),
    )


def pasted_keys_check(plains: list[str], kind: str) -> None:
    """Raises ValidationError with the number of the bad line, never the line."""
    for number, plain in enumerate(plains, start=1):
        try:
            upstream_key_check(plain, kind=kind)
        except ValidationError as error:
            raise ValidationError(
                _("Key %(number)d: %(reason)s") % {"number": number, "reason": " ".join(error.messages)}
            ) from None


if TYPE_CHECKING:
    UpstreamKeyModelForm = forms.ModelForm[UpstreamKey]
else:
    UpstreamKeyModelForm = forms.ModelForm


class UpstreamKeyAddForm(UpstreamKeyModelForm):
    pasted_keys = pasted_keys_field(required=True)

    class Meta:
        model = UpstreamKey
        fields = ("channel",)

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if cleaned and cleaned.get(PASTED) and cleaned.get("channel"):
            try:
                pasted_keys_check(cleaned[PASTED], cleaned["channel"].kind)
            except ValidationError as error:
                self.add_error(PASTED, error)
        return cleaned


@admin.register(UpstreamKey)
class UpstreamKeyAdmin(HealthAdmin, ConfiguredAdmin):
    route_kind = RouteKind.KEY
    list_display = ["label", "channel", "shown_status", "status_reason", "status_changed_at"]
    list_filter = ["status", "channel"]
    list_select_related = ["channel"]
    search_fields = ["label", "channel__name"]
    autocomplete_fields = ["channel"]
    actions = ["enable_upstream_keys", "disable_upstream_keys", "clear_cooldowns", "close_upstream_keys"]
    shown = ("label", "channel", "status", "status_reason", "status_changed_at", "created_at")

    def get_fields(self, request: HttpRequest, obj: UpstreamKey | None = None) -> list[str]:
        return [*self.shown, *CONCURRENCY_FIELDS] if obj else ["channel", PASTED]

    def get_readonly_fields(self, request: HttpRequest, obj: UpstreamKey | None = None) -> list[str]:
        return list(self.shown) if obj else []

    def get_form(
        self, request: HttpRequest, obj: UpstreamKey | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if not change:
            kwargs["form"] = UpstreamKeyAddForm
        return super().get_form(request, obj, change=change, **kwargs)

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> UpstreamKey:
        return upstream_key_update(upstream_key_id=pk, **fields)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        channel = form.cleaned_data["channel"]
        result = upstream_keys_add(channel_id=channel.pk, plains=form.cleaned_data[PASTED])
        adopt(obj, (result.added or result.present)[0])
        for key in result.added[1:]:
            self.log_addition(request, key, [{"added": {}}])
        tell_added(request, result)

    @display(description=_("status"), ordering="status", label=ROUTE_STATUS_LABELS)
    def shown_status(self, key: UpstreamKey) -> tuple[str, str]:
        return key.status, key.get_status_display()

    @admin.action(description=_("Enable chosen upstream keys"), permissions=["change"])
    def enable_upstream_keys(self, request: HttpRequest, rows: QuerySet[UpstreamKey]) -> None:
        self._set_status(request, rows, RouteStatus.ENABLED, _("Enabled"))

    @admin.action(description=_("Disable chosen upstream keys"), permissions=["change"])
    def disable_upstream_keys(self, request: HttpRequest, rows: QuerySet[UpstreamKey]) -> None:
        self._set_status(request, rows, RouteStatus.DISABLED, _("Disabled"))

    @admin.action(description=_("Close chosen upstream keys"), permissions=["change"])
    def close_upstream_keys(self, request: HttpRequest, rows: QuerySet[UpstreamKey]) -> HttpResponse | None:
        consequence = _("%(count)d upstream keys are used no more.") % {"count": rows.count()}
        page = self.confirm_close(request, rows, consequence)
        if page is None:
            self._set_status(request, rows, RouteStatus.CLOSED, _("Closed"))
        return page

    def _set_status(
        self, request: HttpRequest, rows: QuerySet[UpstreamKey], status: RouteStatus, done: Any
    ) -> None:
        self.apply_to_each(
            request, rows, lambda pk: upstream_key_set_status(upstream_key_id=pk, status=status), str(done)
        )


def tell_added(request: HttpRequest, result: UpstreamKeysAdded) -> None:
    text = _("%(added)d upstream keys added, %(present)d were there already.")
    messages.info(request, text % {"added": len(result.added), "present": len(result.present)})
