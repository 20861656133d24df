"""What is asked of a generated database: every list and report, by the name it has in the table of figures."""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.test import Client
from django.utils import timezone

from billing.admin.usage_csv import report_csv
from billing.models import Account, Attempt, LedgerEntry, Price, RelayRequest
from billing.selectors.reports import Grouping, ReportQuery
from billing.selectors.requests import request_view
from billing.selectors.tenant_usage import budget_nano, tenant_costs, tenant_usage
from channels_admin.models import ApiKey, Channel, Tenant

RANGES = (1, 30, 90, 180)


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    ask: Callable[[], Any]


def pages(client: Client) -> Iterator[Page]:
    yield from _lists(client)
    yield from _reports(client)
    yield from _of_tenants()


def _get(client: Client, address: str, **asked: str) -> Callable[[], Any]:
    def ask() -> Any:
        answer = client.get(address, asked)
        assert answer.status_code == 200, (address, asked, answer.status_code)
        return answer

    return ask


def _lists(client: Client) -> Iterator[Page]:
    rows = "/admin/billing/relayrequest/"
    busy, quiet = _busy_tenant(), _quiet_tenant()
    last = RelayRequest.objects.order_by("-pk").first()
    oldest = RelayRequest.objects.order_by("pk").first()
    attempt = Attempt.objects.exclude(upstream_request_id="").order_by("pk").first()
    assert last
    assert oldest
    assert attempt
    for asked in (
        {}, {"p": "100"}, {"tenant": busy.name}, {"tenant": quiet.name}, {"q": busy.name},
        {"api_key": str(_key_of(busy).pk)}, {"api_key": str(_key_of(quiet).pk)},
        {"model": "model-00"}, {"model": "model-39"}, {"model": "no-such-model"},
        {"channel": _channels()[0].name}, {"channel": _channels()[-1].name},
        {"end_reason": "completed"}, {"end_reason": "ping_failed"}, {"end_reason": "revoked"},
        {"failed": "yes"}, {"failed": "no"}, {"estimated__exact": "1"}, {"state__exact": "abandoned"},
        {"stream_asked__exact": "0"}, {"stream_asked__exact": "1"}, {"estimated__exact": "0"},
        {"state__exact": "final"}, {"stream_asked__exact": "0", "state__exact": "final", "estimated__exact": "0"},
        {"failed": "no", "tenant": busy.name}, {"state__exact": "final", "end_reason": "ping_failed"},
        {"failed": "no", "end_reason": "idle_timeout"}, {"failed": "no", "estimated__exact": "0"},
        {"started": "1"}, {"started": "30"}, {"before": str(_days_ago(170))},
        {"failed": "yes", "tenant": busy.name}, {"failed": "yes", "tenant": quiet.name},
        {"model": "model-07", "tenant": busy.name}, {"failed": "yes", "model": "model-39"},
        {"estimated__exact": "1", "tenant": quiet.name}, {"failed": "yes", "channel": _channels()[-1].name},
        {"channel": _channels()[0].name, "tenant": busy.name}, {"failed": "yes", "started": "30"},
        {"model": "model-39", "before": str(_days_ago(170))},
        {"q": str(last.pk)}, {"q": str(oldest.pk)}, {"q": attempt.upstream_request_id}, {"q": "req_nobody"},
    ):  # fmt: skip
        yield Page(f"requests {_words(asked)}", _get(client, rows, **asked))
    yield Page("request, newest", _get(client, f"{rows}{last.pk}/change/"))
    yield Page("request, oldest", _get(client, f"{rows}{oldest.pk}/change/"))
    yield from _money_lists(client, last)


def _money_lists(client: Client, last: RelayRequest) -> Iterator[Page]:
    entries = "/admin/billing/ledgerentry/"
    busy, quiet = (Account.objects.get(tenant=one) for one in (_busy_tenant(), _quiet_tenant()))
    for asked in (
        {}, {"p": "100"}, {"kind__exact": "charge"}, {"kind__exact": "topup"}, {"kind__exact": "refund"},
        {"account__id__exact": str(busy.pk)}, {"account__id__exact": str(quiet.pk)},
        {"account__id__exact": str(busy.pk), "kind__exact": "topup"},
        {"q": str(last.pk)}, {"q": f"charge:{last.pk}"}, {"q": busy.tenant.name}, {"q": "nobody"},
    ):  # fmt: skip
        yield Page(f"ledger entries {_words(asked)}", _get(client, entries, **asked))
    charge = LedgerEntry.objects.order_by("-pk").first()
    assert charge
    yield Page("ledger entry", _get(client, f"{entries}{charge.pk}/change/"))
    for noun in ("account", "deadoutcome", "ledgerdrift", "price", "costprice", "groupmultiplier"):
        yield Page(f"{noun}s", _get(client, f"/admin/billing/{noun}/"))
    price = Price.objects.first()
    assert price
    yield Page("account", _get(client, f"/admin/billing/account/{busy.pk}/change/"))
    yield Page("price", _get(client, f"/admin/billing/price/{price.pk}/change/"))
    for noun in ("tenant", "apikey", "channel", "upstreamkey"):
        yield Page(f"{noun}s", _get(client, f"/admin/channels_admin/{noun}/"))
    yield Page("console's first page", _get(client, "/admin/"))


def _reports(client: Client) -> Iterator[Page]:
    report = "/admin/billing/usagedaily/"
    busy, last = _busy_tenant(), timezone.now().date()
    narrowings = ({}, {"tenant_id": str(busy.pk)}, {"api_key_id": str(_key_of(busy).pk)},
                  {"model": "model-00"}, {"channel_id": str(_channels()[0].pk)})  # fmt: skip
    for narrowed in narrowings:
        for by in Grouping:
            for days in RANGES if not narrowed else (30, 180):
                if by is Grouping.HOUR and days > 31:
                    continue
                asked = {"first": str(_days_ago(days - 1)), "last": str(last), "by": by.value, **narrowed}
                where = f", narrowed to {next(iter(narrowed))}" if narrowed else ""
                yield Page(f"report by {by.value}, {days} days{where}", _get(client, report, **asked))
    for by in Grouping:
        days = 31 if by is Grouping.HOUR else 180
        query = ReportQuery(first=_days_ago(days - 1), last=last, by=by)
        yield Page(
            f"CSV by {by.value}, {days} days: first lines", lambda query=query: _two(report_csv(query))
        )


def _of_tenants() -> Iterator[Page]:
    busy, last = _busy_tenant(), timezone.now().date()
    row = RelayRequest.objects.order_by("pk").first()
    assert row
    for by in (Grouping.DAY, Grouping.HOUR, Grouping.MODEL, Grouping.API_KEY):
        for days in (30,) if by is Grouping.HOUR else (30, 180):
            query = ReportQuery(first=_days_ago(days - 1), last=last, by=by, tenant_id=busy.pk)
            yield Page(f"GET /v1/usage by {by.value}, {days} days", lambda query=query: tenant_usage(query))
    month = ReportQuery(first=last.replace(day=1), last=last, by=Grouping.DAY, tenant_id=busy.pk)
    half = ReportQuery(first=_days_ago(179), last=last, by=Grouping.MODEL, tenant_id=busy.pk)
    yield Page("GET …/billing/subscription", lambda: budget_nano(month))
    yield Page("GET …/billing/usage, 180 days", lambda: tenant_costs(half))
    yield Page("GET /v1/requests/{id}", lambda: request_view(row.tenant_id, str(row.pk)))


def _two(pieces: Iterator[str]) -> None:
    next(pieces)
    next(pieces)


def _words(asked: dict[str, str]) -> str:
    names = [name.removesuffix("__exact").removesuffix("__id") for name in asked]
    values = [value if len(value) < 20 else "…" for value in asked.values()]
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True)) or "unfiltered"


def _days_ago(days: int) -> datetime.date:
    return timezone.now().date() - datetime.timedelta(days=days)


def _busy_tenant() -> Tenant:
    return Tenant.objects.get(name="scale-tenant-0000")


def _quiet_tenant() -> Tenant:
    row = Tenant.objects.filter(name__startswith="scale-tenant-").order_by("-name").first()
    assert row
    return row


def _key_of(tenant: Tenant) -> ApiKey:
    row = ApiKey.objects.filter(tenant=tenant).order_by("name").first()
    assert row
    return row


def _channels() -> list[Channel]:
    return list(Channel.objects.filter(name__startswith="scale-channel-").order_by("name"))
