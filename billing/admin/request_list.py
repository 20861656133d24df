"""The request list over millions of rows: however filters are put together, a bounded number is looked at.

Each narrowing filter has an index that gives its newest rows in order. Together none has: then only rows from
the horizon on are looked at, the id of the `LOOKED_AT_MAX`th newest row of that filter which reaches furthest
back. A filter with fewer rows than that has no horizon, and all is found. Filters that most of the table
passes have no index: alone they look at the newest rows of all. `before` moves the horizon back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.views import ChangeList

from billing.admin.request_filters import (
    NOBODY,
    api_key_condition,
    channel_id_of,
    end_reason_condition,
    failed_condition,
    model_condition,
    span_of,
    tenant_condition,
)
from billing.models import Attempt, RelayRequest
from billing.selectors.whereabouts import request_ids_of

LOOKED_AT_MAX = 5_000

Rows = QuerySet[RelayRequest]
_CONDITIONS = {
    "tenant": tenant_condition,
    "api_key": api_key_condition,
    "model": model_condition,
    "end_reason": end_reason_condition,
    "failed": failed_condition,
}
_RARE = {
    "estimated__exact": ("1", Q(estimated=True)),
    "state__exact": ("abandoned", Q(state="abandoned")),
}
"""Filters that Django makes; their other value is most of the table, and needs no index."""
_COMMON = {"failed": "no"}
"""So do these."""


class RequestList(ChangeList):
    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Rows:
        rows: Rows = super().get_queryset(request, exclude_parameters)
        asked = {name: text for name in request.GET if (text := str(request.GET[name]).strip())}
        return narrowed(rows, asked)


def narrowed(rows: Rows, asked: Mapping[str, str]) -> Rows:
    """By the parameters of the page's address; unknown ones are not minded."""
    conditions = {name: condition(asked[name]) for name, condition in _CONDITIONS.items() if name in asked}
    rows = rows.filter(*conditions.values())
    span = span_of(asked.get("started", ""), asked.get("before", ""))
    channel_id = channel_id_of(asked["channel"]) if "channel" in asked else None
    if "channel" in asked and channel_id is None:
        return rows.none()
    searched = tenant_condition(asked["q"]) if "q" in asked else None
    narrowing = list(_narrowing(asked, conditions, searched))
    # What is searched by its id is a few rows already.
    has_common = searched != NOBODY and _has_common(asked)
    horizon = _horizon(narrowing, span, channel_id, has_common=has_common)
    if horizon is not None:
        span &= Q(pk__gte=horizon)
    rows = rows.filter(span)
    if channel_id is None:
        return rows
    attempts = Attempt.objects.filter(_of_request(span), channel=channel_id)
    return rows.filter(pk__in=attempts.values("request_id"))


def named(rows: Rows, term: str) -> Rows:
    """What the search box finds: an id, a tenant's name, an upstream's id."""
    try:
        return rows.filter(pk=UUID(term))
    except ValueError:
        pass
    of_tenant = tenant_condition(term)
    return rows.filter(pk__in=request_ids_of(term)) if of_tenant == NOBODY else rows.filter(of_tenant)


def _horizon(conditions: Sequence[Q], span: Q, channel_id: int | None, *, has_common: bool) -> UUID | None:
    """None: there is none, as one filter alone is answered by its index, or has few rows."""
    if channel_id is None and len(conditions) < 2 and not has_common:
        return None
    if channel_id is None and not conditions:
        conditions = [Q()]
    found: list[UUID] = []
    if channel_id is not None:
        attempts = Attempt.objects.filter(_of_request(span), channel=channel_id)
        ids = attempts.order_by("-request_id").values_list("request_id", flat=True)
        found.extend(ids[LOOKED_AT_MAX - 1 : LOOKED_AT_MAX])
    for condition in conditions:
        rows = RelayRequest.objects.filter(span, condition).order_by("-pk").values_list("pk", flat=True)
        found.extend(rows[LOOKED_AT_MAX - 1 : LOOKED_AT_MAX])
    is_complete = len(found) < len(conditions) + (channel_id is not None)
    return None if is_complete else min(found)


def _narrowing(asked: Mapping[str, str], conditions: Mapping[str, Q], searched: Q | None) -> Iterator[Q]:
    """Conditions with an index of their own. searched: of the tenant that the search box names."""
    for name, condition in conditions.items():
        if asked[name] != _COMMON.get(name):
            yield condition
    for name, (value, rare) in _RARE.items():
        if asked.get(name) == value:
            yield rare
    if searched is not None and searched != NOBODY:
        yield searched


def _has_common(asked: Mapping[str, str]) -> bool:
    """Whether a filter without an index is set, which most of the table may pass, or almost nothing."""
    return (
        "stream_asked__exact" in asked
        or any(asked.get(name) == value for name, value in _COMMON.items())
        or any(asked.get(name, value) != value for name, (value, _) in _RARE.items())
    )


def _of_request(span: Q) -> Q:
    """The same span, said of an attempt's request."""
    said = Q()
    for lookup, value in (child for child in span.children if isinstance(child, tuple)):
        said &= Q(**{lookup.replace("pk__", "request_id__"): value})
    return said
