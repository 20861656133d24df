"""Usage as its tenant may see it, from the roll-ups: no operator cost, no channel."""

import datetime
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Sum

from billing.core.money import usd_from_nano
from billing.selectors.accounts import account_state
from billing.selectors.report_names import own_key_names
from billing.selectors.report_rows import Wanted, sources
from billing.selectors.reports import (
    Grouping,
    Key,
    ReportQuery,
    UsageLine,
    UsageSums,
    usage_report,
    usage_total,
)

LINES_MAX = 1_000
ITEMS_MAX = 10_000
"""Of a range, days times models."""


@dataclass(frozen=True, slots=True)
class KeyName:
    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """charged_usd: exact, as text."""

    requests: int
    successes: int
    incomplete: int
    estimated: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    images: int
    charged_nano: int
    charged_usd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine(Figures):
    """key: a day, an hour (its beginning), a model's name, or the API key, as the answer's group_by says."""

    key: str | KeyName


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUsage:
    """total: of everything, whether its line is among `data` or not."""

    object: str
    start_date: datetime.date
    end_date: datetime.date
    group_by: str
    data: tuple[TenantLine, ...]
    has_more: bool
    total: Figures


@dataclass(frozen=True, slots=True)
class ModelCost:
    model: str
    charged_nano: int


@dataclass(frozen=True, slots=True)
class TenantCosts:
    """total_nano: of everything. by_day: the dearest model first; at most `ITEMS_MAX` in all."""

    total_nano: int
    by_day: Mapping[datetime.date, list[ModelCost]]


def tenant_usage(query: ReportQuery) -> TenantUsage:
    """At most `LINES_MAX` lines. `query.tenant_id` must be set: raises ValueError."""
    tenant_id = _tenant_of(query)
    report = usage_report(query, limit=LINES_MAX + 1)
    names = own_key_names(tenant_id) if query.by is Grouping.API_KEY else {}
    return TenantUsage(
        object="relay.usage",
        start_date=query.first,
        end_date=query.last,
        group_by=query.by.value,
        data=tuple(_line(line, names) for line in report.lines[:LINES_MAX]),
        has_more=len(report.lines) > LINES_MAX,
        total=Figures(**_figures(report.total)),
    )


def tenant_costs(query: ReportQuery) -> TenantCosts:
    """What each day of the range cost, by model; what cost nothing is left out."""
    costs = sorted(
        (day, -charged, model)
        for source in sources(_by_model(query))
        for day, model, charged in source.rows.values_list("day", "model").annotate(
            charged=Sum("charged_nano")
        )
    )
    by_day: dict[datetime.date, list[ModelCost]] = defaultdict(list)
    for day, negative, model in [cost for cost in costs if cost[1]][:ITEMS_MAX]:
        by_day[day].append(ModelCost(model, -int(negative)))
    return TenantCosts(-int(sum(cost[1] for cost in costs)), by_day)


def budget_nano(query: ReportQuery) -> int:
    """The balance, and what the range of `query` was charged: what there was to spend in it."""
    return account_state(_tenant_of(query)).balance_nano + usage_total(query).charged_nano


def _by_model(query: ReportQuery) -> Wanted:
    narrowed: dict[str, int | str] = {"tenant_id": _tenant_of(query)}
    return Wanted(query.first, query.last, columns=frozenset({"model"}), narrowed=narrowed)


def _line(line: UsageLine, names: Mapping[int, str]) -> TenantLine:
    return TenantLine(key=_key(line.key, names), **_figures(line.sums))


def _key(key: Key, names: Mapping[int, str]) -> str | KeyName:
    if isinstance(key, int):
        return KeyName(key, names.get(key, ""))
    return key if isinstance(key, str) else key.isoformat()


def _figures(sums: UsageSums) -> dict[str, Any]:
    return {
        "requests": sums.requests,
        "successes": sums.successes,
        "incomplete": sums.incomplete,
        "estimated": sums.estimated,
        "input_tokens": sums.input,
        "cached_input_tokens": sums.cached_input,
        "cache_write_tokens": sums.cache_write,
        "output_tokens": sums.output,
        "reasoning_tokens": sums.reasoning,
        "images": sums.images,
        "charged_nano": sums.charged_nano,
        "charged_usd": f"{usd_from_nano(sums.charged_nano):f}",
    }


def _tenant_of(query: ReportQuery) -> int:
    if query.tenant_id is None:
        raise ValueError("a tenant's usage is asked for without the tenant")
    return query.tenant_id
