"""Names for what usage reports group by: roll-ups know ids, people know names."""

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.translation import gettext as _

from billing.selectors.reports import Grouping
from channels_admin.models import ApiKey, Channel, Tenant

NO_CHANNEL = 0
"""Of a request that no attempt was made for."""


def names_of(by: Grouping, ids: Collection[int]) -> Mapping[int, str]:
    """Of the ids that exist. Empty for groupings whose keys are words already."""
    match by:
        case Grouping.TENANT:
            return dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "name"))
        case Grouping.CHANNEL:
            names: dict[int, str] = dict(Channel.objects.filter(pk__in=ids).values_list("pk", "name"))
            return {NO_CHANNEL: _("no channel"), **names}
        case Grouping.API_KEY:
            return {row.pk: f"{row.tenant.name} · {row.name}" for row in _keys(ids)}
        case _:
            return {}


def own_key_names(tenant_id: int) -> Mapping[int, str]:
    """A tenant's API keys by their own names."""
    return dict(ApiKey.objects.filter(tenant_id=tenant_id).values_list("pk", "name"))


def _keys(ids: Collection[int]) -> Any:
    return ApiKey.objects.filter(pk__in=ids).select_related("tenant").only("name", "tenant__name")
