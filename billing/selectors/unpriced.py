"""Models that tenants can ask for, or did ask for, and that have no price: those requests are refused."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import F, Sum

from billing.core.price_book import PriceBook
from billing.core.prices import PriceParts, PriceRow
from billing.models import Price
from billing.selectors.report_rows import Wanted, sources
from channels_admin.models import Channel, Tenant
from channels_admin.statuses import RouteStatus

_LOOKED_BACK = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class UnpricedModel:
    """groups: tenant groups for which it has no price. requests: served in the last 30 days all the same."""

    model: str
    groups: tuple[str, ...]
    requests: int


def unpriced_models(now: datetime.datetime) -> tuple[UnpricedModel, ...]:
    """By name: what enabled channels serve, and what was served lately. Patterns are no names."""
    book = _names_book()
    groups: dict[str, set[str]] = {}
    requests: dict[str, int] = {}
    for model, group, count in (*_configured(), *_served(now)):
        if model and book.price(model, group, now) is None:
            groups.setdefault(model, set()).add(group)
            requests[model] = requests.get(model, 0) + count
    return tuple(
        UnpricedModel(model, tuple(sorted(groups[model])), requests[model]) for model in sorted(groups)
    )


def _names_book() -> PriceBook:
    """Only whether there is a price matters, not what it says."""
    rows = Price.objects.filter(is_closed=False).values_list("pk", "model", "group", "effective_from")
    nothing = PriceParts()
    return PriceBook(
        PriceRow(id=pk, model=model, group=group, effective_from=begins, parts=nothing)
        for pk, model, group, begins in rows
    )


def _configured() -> Iterator[tuple[str, str, int]]:
    for channel in Channel.objects.filter(status=RouteStatus.ENABLED.value):
        names = {*channel.models, *channel.model_mapping}
        yield from ((name, group, 0) for name in names if "*" not in name for group in channel.groups)


def _served(now: datetime.datetime) -> Iterator[tuple[str, str, int]]:
    """What was answered: a refusal for want of a price does not count."""
    first, last = (now - _LOOKED_BACK).date(), now.date()
    columns = frozenset({"model", "tenant_id"})
    groups = dict(Tenant.objects.values_list("pk", "group"))
    for source in sources(Wanted(first, last, columns=columns, narrowed={})):
        sums = source.rows.values_list("model", "tenant_id").annotate(
            count=Sum(F("successes") + F("incomplete"))
        )
        yield from (
            (model, groups.get(tenant_id, ""), int(count)) for model, tenant_id, count in sums if count
        )
