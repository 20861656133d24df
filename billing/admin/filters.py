"""Filters of the request list: fixed choices, so that none of them reads a table to offer itself."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from relay.core.end_reasons import SUCCESSFUL, EndReason


class EndReasonFilter(SimpleListFilter):
    title = _("end reason")
    parameter_name = "end_reason"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: ModelAdmin[Any],  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        return [(reason.value, reason.value.replace("_", " ")) for reason in EndReason]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002  Django's signature
        return queryset.filter(end_reason=self.value()) if self.value() else queryset


class FailedFilter(SimpleListFilter):
    title = _("outcome")
    parameter_name = "failed"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: ModelAdmin[Any],  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        return [("yes", str(_("failed"))), ("no", str(_("successful")))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002  Django's signature
        successful = [reason.value for reason in SUCCESSFUL]
        if self.value() == "yes":
            return queryset.exclude(end_reason__in=successful)
        return queryset.filter(end_reason__in=successful) if self.value() == "no" else queryset
