"""What a tenant is told of its usage, over real sockets; and the staff's CSV, streamed by the real server."""

import datetime

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from billing.models import Account, UsageDaily
from channels_admin.services import api_key_update
from tests.factories.billing import Owner
from tests.factories.channels import a_channel, a_staff_user, a_tenant, an_api_key
from tests.factories.usage import usage_make

SUBSCRIPTION = "/v1/dashboard/billing/subscription"
DASHBOARD = "/v1/dashboard/billing/usage"


def today():
    return timezone.now().date()


def day_text(days_ago=0):
    return (today() - datetime.timedelta(days=days_ago)).isoformat()


@pytest.fixture
async def usage(gateway):
    """Makes roll-ups of the gateway's own tenant, unless an owner is given."""

    async def make(owner=None, *, days_ago=0, **figures):
        own = owner or Owner(gateway.tenant, gateway.api_key, gateway.channel)
        await gateway.run(usage_make, own, today() - datetime.timedelta(days=days_ago), **figures)

    return make


def a_stranger():
    tenant = a_tenant()
    return Owner(tenant, an_api_key(tenant)[0], a_channel())


async def json_of(gateway, target):
    heard = await gateway.ask("GET", target)
    assert heard.status == 200, heard.body
    assert heard.header("content-type") == "application/json"
    return heard.json()


async def test_usage_by_day_is_the_tenants_own(gateway, usage):
    await usage(days_ago=1, requests=3, successes=2, input=10, cached_input=4, output=5, charged_nano=1_500)
    await usage(requests=1, charged_nano=2_000_000_000)
    await usage(days_ago=40, requests=99)
    await usage(await gateway.run(a_stranger), requests=1_000)
    answer = await json_of(gateway, "/v1/usage")
    assert answer["object"] == "relay.usage"
    assert (answer["start_date"], answer["end_date"]) == (day_text(29), day_text())
    assert [(line["key"], line["requests"]) for line in answer["data"]] == [(day_text(1), 3), (day_text(), 1)]
    assert answer["data"][0] == {
        "key": day_text(1), "requests": 3, "successes": 2, "incomplete": 0, "estimated": 0,
        "input_tokens": 10, "cached_input_tokens": 4, "cache_write_tokens": 0, "output_tokens": 5,
        "reasoning_tokens": 0, "images": 0, "charged_nano": 1_500, "charged_usd": "0.000001500",
    }  # fmt: skip
    assert answer["total"]["requests"] == 4
    assert answer["has_more"] is False


@pytest.mark.parametrize(
    ("group_by", "keys"),
    [
        ("model", ["mini", "gpt-4o"]),
        ("api_key", [{"id": "{id}", "name": "main"}]),
        ("hour", ["{day}T12:00:00+00:00", "{day}T13:00:00+00:00"]),
    ],
)
async def test_groupings(gateway, usage, group_by, keys):
    await usage(charged_nano=1)
    await usage(model="mini", hour=13, charged_nano=2)
    target = f"/v1/usage?group_by={group_by}&start_date={day_text()}"
    found = [line["key"] for line in (await json_of(gateway, target))["data"]]
    if group_by == "api_key":
        keys = [{"id": gateway.api_key.pk, "name": gateway.api_key.name}]
    assert found == [key.format(day=day_text()) if isinstance(key, str) else key for key in keys]


async def test_nothing_of_the_operators_is_told(gateway, usage):
    await usage(operator_cost_nano=123_456_789, possible_duplicates=987_654_321, charged_nano=1)
    for target in ("/v1/usage", "/v1/usage?group_by=model", SUBSCRIPTION, DASHBOARD):
        heard = await gateway.ask("GET", target)
        assert heard.status == 200
        assert b"123456789" not in heard.body
        assert b"987654321" not in heard.body
        assert gateway.channel.name.encode() not in heard.body


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("group_by=channel", "group_by"),
        ("group_by=tenant", "group_by"),
        ("group_by=", "group_by"),
        ("start_date=monday", "start_date"),
        ("end_date=2026-02-30", "end_date"),
        ("end_date=2026-13-01T00:00:00Z", "end_date"),
        ("start_date=2026-02-02&end_date=2026-02-01", "start_date"),
        ("start_date=2020-01-01", "start_date"),
        ("start_date=2026-01-01&end_date=2026-03-01&group_by=hour", "start_date"),
        ("end_date=0001-01-01", "end_date"),
        ("end_date=9999-12-31&start_date=9999-12-31&group_by=hour", "end_date"),
    ],
)
async def test_bad_questions_are_told(gateway, query, param):
    heard = await gateway.ask("GET", f"/v1/usage?{query}")
    assert heard.status == 400
    assert heard.error["param"] == param
    assert heard.error["code"] == "invalid_value"


async def test_lines_are_bounded_and_the_total_is_not(gateway, usage, monkeypatch):
    monkeypatch.setattr("billing.selectors.tenant_usage.LINES_MAX", 2)
    for number in range(3):
        await usage(model=f"m{number}")
    answer = await json_of(gateway, "/v1/usage?group_by=model")
    assert (len(answer["data"]), answer["has_more"], answer["total"]["requests"]) == (2, True, 3)


async def test_a_dashboard_client_finds_the_balance(gateway, usage):
    """As such clients reckon: the limit less this month's usage, the month as they ask for it."""
    balance = await gateway.run(lambda: Account.objects.get(tenant=gateway.tenant).balance_nano)
    assert balance == 100_000_000_000
    await usage(charged_nano=1_234_567_890)
    await usage(model="mini", charged_nano=65_432_110)
    await usage(days_ago=40, charged_nano=7_000_000_000)
    month = f"start_date={today().replace(day=1).isoformat()}&end_date={day_text()}"
    limit = await json_of(gateway, SUBSCRIPTION)
    used = await json_of(gateway, f"{DASHBOARD}?{month}")
    assert limit["object"] == "billing_subscription"
    assert limit["has_payment_method"] is True
    assert limit["hard_limit_usd"] == limit["soft_limit_usd"] == limit["system_hard_limit_usd"] == 101.3
    assert limit["access_until"] == 0
    assert used["object"] == "list"
    assert used["total_usage"] == 130.0
    assert limit["hard_limit_usd"] - used["total_usage"] / 100 == pytest.approx(100)
    assert await json_of(gateway, DASHBOARD) == used, "without dates it is this month"


async def test_the_dashboard_has_costs_by_day_and_model(gateway, usage):
    await usage(days_ago=1, charged_nano=20_000_000)
    await usage(charged_nano=10_000_000)
    await usage(model="mini", charged_nano=30_000_000)
    await usage(model="free", charged_nano=0)
    answer = await json_of(gateway, f"{DASHBOARD}?start_date={day_text(1)}&end_date={day_text()}")
    midnight = datetime.datetime.combine(today(), datetime.time(), datetime.UTC).timestamp()
    assert answer["daily_costs"] == [
        {"timestamp": midnight - 86_400, "line_items": [{"name": "gpt-4o", "cost": 2}]},
        {"timestamp": midnight, "line_items": [{"name": "mini", "cost": 3}, {"name": "gpt-4o", "cost": 1}]},
    ]
    assert answer["total_usage"] == 6


async def test_a_tenant_without_account_or_usage(gateway):
    _, key = await gateway.run(an_api_key)
    subscription = await gateway.ask("GET", SUBSCRIPTION, key=key)
    assert subscription.json()["hard_limit_usd"] == 0
    used = await gateway.ask("GET", DASHBOARD, key=key)
    assert used.json() == {"total_usage": 0, "daily_costs": [], "object": "list"}


async def test_an_expiring_key_says_until_when(gateway):
    until = timezone.now().replace(microsecond=0) + datetime.timedelta(days=1)
    await gateway.configure(api_key_update, api_key_id=gateway.api_key.pk, expires_at=until)
    assert (await json_of(gateway, SUBSCRIPTION))["access_until"] == int(until.timestamp())


async def test_a_request_that_was_served_is_in_the_usage(gateway):
    await gateway.chat("echo-0")
    await gateway.recorded()
    answer = await json_of(gateway, "/v1/usage?group_by=model")
    assert [(line["key"], line["requests"]) for line in answer["data"]] == [("echo-0", 1)]


def _cookie(role):
    user = a_staff_user(role)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return "Cookie", f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


def _many_models(owner):
    rows = [
        UsageDaily(
            day=today(), tenant_id=owner.tenant.pk, api_key_id=owner.api_key.pk, channel_id=0,
            model=f"model-{number}", requests=1,
        )
        for number in range(2_000)
    ]  # fmt: skip
    UsageDaily.objects.bulk_create(rows)


async def test_the_csv_is_streamed_whole(gateway):
    await gateway.run(_many_models, Owner(gateway.tenant, gateway.api_key, gateway.channel))
    cookie = await gateway.run(_cookie, "viewer")
    target = f"/admin/billing/usagedaily/csv/?by=model&first={day_text()}&last={day_text()}"
    heard = await gateway.ask("GET", target, cookie, key=None)
    assert heard.status == 200
    assert heard.is_whole
    assert heard.header("transfer-encoding") == "chunked"
    name = f"usage-by-model-{day_text()}-{day_text()}.csv"
    assert heard.header("content-disposition") == f'attachment; filename="{name}"'
    lines = heard.body.decode("utf-8-sig").splitlines()
    assert len(lines) == 2_001
    assert len(set(lines)) == 2_001


async def test_a_client_that_leaves_during_the_csv_leaves_nothing_behind(gateway):
    """The fixture looks for what is left."""
    await gateway.run(_many_models, Owner(gateway.tenant, gateway.api_key, gateway.channel))
    cookie = await gateway.run(_cookie, "viewer")
    target = f"/admin/billing/usagedaily/csv/?by=model&first={day_text()}&last={day_text()}"
    async with await gateway.begin("GET", target, cookie, key=None, receive_buffer=4096) as call:
        await call.read_until(b"model-")
        call.reset()
