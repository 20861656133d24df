"""What a tenant used: `GET /v1/usage`, and the two dashboard endpoints that common clients ask for a balance.

All of it is the calling key's whole tenant, never another's, and never what the operator pays or which
channels were used.
"""

import datetime
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from billing.core.money import usd_from_nano
from billing.selectors.reports import EARLIEST, LATEST, BadRange, Grouping, ReportQuery
from billing.selectors.tenant_usage import ModelCost, budget_nano, tenant_costs, tenant_usage
from gateway import wiring
from gateway.relay_flow import caller_of
from relay.core.errors import Refusal

router = Router()

DEFAULT_DAYS = 30
_GROUPINGS = {by.value: by for by in (Grouping.DAY, Grouping.HOUR, Grouping.MODEL, Grouping.API_KEY)}
_encoder = msgspec.json.Encoder(decimal_format="number")


class Subscription(msgspec.Struct, frozen=True):
    """As OpenAI's old dashboard had it. What is left is hard_limit_usd less this month's usage."""

    hard_limit_usd: Decimal
    soft_limit_usd: Decimal
    system_hard_limit_usd: Decimal
    access_until: int
    object: str = "billing_subscription"
    has_payment_method: bool = True


class LineItem(msgspec.Struct, frozen=True):
    """cost: US cents."""

    name: str
    cost: Decimal


class DailyCost(msgspec.Struct, frozen=True):
    """timestamp: the day's beginning (UTC), in seconds."""

    timestamp: int
    line_items: list[LineItem]


class DashboardUsage(msgspec.Struct, frozen=True):
    """total_usage: US cents."""

    total_usage: Decimal
    daily_costs: list[DailyCost]
    object: str = "list"


@router.get("/v1/usage")
async def usage_report(
    request: HttpRequest, start_date: str = "", end_date: str = "", group_by: str = Grouping.DAY.value
) -> HttpResponse:
    """Dates are UTC days, both included; left out: the last 30 days. group_by: day, hour, model, api_key."""
    by = _GROUPINGS.get(group_by)
    if by is None:
        words = ", ".join(_GROUPINGS)
        raise _bad_value(f"`group_by` is one of {words}.", "group_by")
    last = _day(end_date, "end_date") or timezone.now().date()
    first = _day(start_date, "start_date") or last - datetime.timedelta(days=DEFAULT_DAYS - 1)
    query = _query(caller_of(request).tenant_id, first, last, by)
    return _json(await wiring.current().threads.read(tenant_usage, query))


@router.get("/v1/dashboard/billing/subscription")
async def dashboard_subscription(request: HttpRequest) -> HttpResponse:
    """The limit is what is left and what this month has used: the difference is the balance."""
    caller = caller_of(request)
    today = timezone.now().date()
    query = _query(caller.tenant_id, today.replace(day=1), today, Grouping.DAY)
    limit = usd_from_nano(await wiring.current().threads.read(budget_nano, query))
    until = int(caller.expires_at.timestamp()) if caller.expires_at else 0
    return _json(Subscription(limit, limit, limit, until))


@router.get("/v1/dashboard/billing/usage")
async def dashboard_usage(request: HttpRequest, start_date: str = "", end_date: str = "") -> HttpResponse:
    """Dates as in `usage_report`; left out: this month."""
    today = timezone.now().date()
    last = _day(end_date, "end_date") or today
    first = _day(start_date, "start_date") or min(today.replace(day=1), last)
    query = _query(caller_of(request).tenant_id, first, last, Grouping.MODEL)
    costs = await wiring.current().threads.read(tenant_costs, query)
    days = [_daily_cost(day, models) for day, models in costs.by_day.items()]
    return _json(DashboardUsage(_cents(costs.total_nano), days))


def _daily_cost(day: datetime.date, models: Sequence[ModelCost]) -> DailyCost:
    midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    items = [LineItem(cost.model, _cents(cost.charged_nano)) for cost in models]
    return DailyCost(int(midnight.timestamp()), items)


def _cents(nano: int) -> Decimal:
    return usd_from_nano(nano) * 100


def _query(tenant_id: int, first: datetime.date, last: datetime.date, by: Grouping) -> ReportQuery:
    try:
        return ReportQuery(first=first, last=last, by=by, tenant_id=tenant_id)
    except BadRange as error:
        raise _bad_value(str(error), "start_date") from error


def _day(text: str, name: str) -> datetime.date | None:
    """None for nothing. Clients that send a time with the day mean the day."""
    if not text:
        return None
    try:
        day = datetime.date.fromisoformat(text.partition("T")[0])
    except ValueError:
        day = None
    if day is None or not EARLIEST <= day <= LATEST:
        raise _bad_value(f"`{name}` is a day such as 2026-01-31.", name)
    return day


def _bad_value(message: str, param: str) -> Refusal:
    return Refusal(400, message, code="invalid_value", param=param)


def _json(value: object) -> HttpResponse:
    return HttpResponse(_encoder.encode(value), content_type="application/json")
