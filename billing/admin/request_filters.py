"""Filters of the request list: what each asks of the rows, in words that one index each can answer.

Names become ids first, so that no join is planned over all requests. None of them reads a table to offer
itself. `billing.admin.request_list` keeps several of them together quick.
"""

from __future__ import annotations

import datetime
from typing import Any
from uuid import UUID

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import TextFilter

from billing.models import RelayRequest
from billing.models.relay_requests import SUCCESSFUL_REASONS
from channels_admin.middleware import is_key_of
from channels_admin.models import ApiKey, Channel, Tenant
from relay.core.end_reasons import EndReason

NOBODY = Q(pk__in=[])

Rows = QuerySet[RelayRequest]


def tenant_condition(name: str) -> Q:
    tenant_id = Tenant.objects.filter(name=name).values_list("pk", flat=True).first()
    return NOBODY if tenant_id is None else Q(tenant=tenant_id)


def api_key_condition(text: str) -> Q:
    """By the number in its page's address, or by its beginning as the console shows it."""
    if is_key_of(ApiKey, text):
        return Q(api_key=int(text))
    keys = list(ApiKey.objects.filter(prefix=text.removesuffix("…")).values_list("pk", flat=True)[:2])
    # One only: an index has the order of one key. Two keys of one beginning are asked for by number.
    return Q(api_key=keys[0]) if len(keys) == 1 else NOBODY


def model_condition(name: str) -> Q:
    return Q(model_asked=name)


def end_reason_condition(word: str) -> Q:
    return Q(end_reason=word)


def failed_condition(word: str) -> Q:
    """As the partial index on failures says it."""
    successful = Q(end_reason__in=SUCCESSFUL_REASONS)
    return {"yes": ~successful, "no": successful}.get(word, Q())


def channel_id_of(name: str) -> int | None:
    return Channel.objects.filter(name=name).values_list("pk", flat=True).first()


def span_of(started: str, before: str) -> Q:
    """started: within so many days. before: a moment or a request id. Empty = no bound."""
    span = Q()
    if started.isdecimal() and len(started) < 4:
        span &= Q(pk__gte=id_at(timezone.now() - datetime.timedelta(days=int(started))))
    if before:
        bound = _bound(before)
        span &= NOBODY if bound is None else Q(pk__lt=bound)
    return span


def id_at(moment: datetime.datetime) -> UUID | None:
    """The least id of that millisecond: ids begin with the time they were made. None: before 1970."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=milliseconds << 80) if 0 <= milliseconds < 1 << 48 else None


class _Text(TextFilter):
    """The request list narrows by it (`billing.admin.request_list`)."""

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:  # noqa: ARG002  Django's signature
        return queryset


class TenantFilter(_Text):
    title, parameter_name = _("tenant (exact name)"), "tenant"


class ApiKeyFilter(_Text):
    title, parameter_name = _("API key (number or shown beginning)"), "api_key"


class ModelFilter(_Text):
    title, parameter_name = _("model asked (exact name)"), "model"


class ChannelFilter(_Text):
    """Of requests with an attempt on the channel, whether it answered or not."""

    title, parameter_name = _("channel (exact name)"), "channel"


class BeforeFilter(_Text):
    """What is older than a moment or a request: pages through all of the past."""

    title, parameter_name = _("before (2026-01-31, 2026-01-31 12:00 UTC, or a request id)"), "before"


class _Choice(SimpleListFilter):
    """As `_Text`."""

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:  # noqa: ARG002  Django's signature
        return queryset


class EndReasonFilter(_Choice):
    title = _("end reason")
    parameter_name = "end_reason"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: ModelAdmin[Any],  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        return [(reason.value, reason.value.replace("_", " ")) for reason in EndReason]


class FailedFilter(_Choice):
    title = _("outcome")
    parameter_name = "failed"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: ModelAdmin[Any],  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        return [("yes", str(_("failed"))), ("no", str(_("successful")))]


class StartedFilter(_Choice):
    title = _("started within")
    parameter_name = "started"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        model_admin: ModelAdmin[Any],  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        return [("1", str(_("1 day"))), ("7", str(_("7 days"))), ("30", str(_("30 days")))]


def _bound(text: str) -> UUID | None:
    """None for what is neither."""
    try:
        return UUID(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        return None
    return id_at(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC))
