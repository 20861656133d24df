"""The console's pages of records and money: cheap lists, nothing deletable, edits through services."""

import datetime
from decimal import Decimal

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.admin import base
from billing.core.prices import PriceParts
from billing.models import Account, Attempt, DeadOutcome, LedgerEntry, Price, RelayRequest
from billing.services import booking
from billing.services.ledger import account_open
from billing.services.prices import price_set
from channels_admin.roles import Role
from relay.core.end_reasons import EndReason
from tests.factories.billing import attempt_make, outcome_make, outcomes_record, owner_make

pytestmark = [
    pytest.mark.django_db,
    # Whitenoise wants STATIC_ROOT, which only a deployment with collectstatic has.
    pytest.mark.filterwarnings("ignore:No directory at:UserWarning"),
]

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PAGES = (RelayRequest, Price, Account, LedgerEntry, DeadOutcome)


def page(model, kind="changelist", *args) -> str:
    return reverse(f"admin:billing_{model._meta.model_name}_{kind}", args=args)


@pytest.fixture
def chief(client):
    client.force_login(User.objects.create(username="chief", is_staff=True, is_superuser=True))
    return client


def rows_make(count: int):
    """`count` rows on every page, each with an owner of its own."""
    price_values = PriceParts(input=Decimal(1))
    for number in range(count):
        owner = owner_make()
        attempts = tuple(attempt_make(channel_id=owner.channel.pk, number=place) for place in (1, 2))
        outcomes_record([outcome_make(owner, attempts=attempts)])
        account_open(tenant=owner.tenant, balance_usd=Decimal("12.5"))
        price_set(model=f"m-{number}-{Price.objects.count()}", parts=price_values, effective_from=NEW_YEAR)
        outcomes_record([outcome_make(owner, status=-1)])


def queries_of(client, address: str) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in queries.captured_queries]


@pytest.mark.parametrize("model", PAGES, ids=lambda model: model._meta.model_name)
def test_a_list_costs_the_same_for_many_rows(chief, model):
    rows_make(2)
    chief.get(page(model))
    few = len(queries_of(chief, page(model)))
    rows_make(6)
    assert len(queries_of(chief, page(model))) == few


@pytest.mark.parametrize(
    "model", [RelayRequest, Account, LedgerEntry, DeadOutcome], ids=lambda model: model._meta.model_name
)
def test_a_list_never_counts_a_table(chief, model):
    rows_make(1)
    counts = [
        sql for sql in queries_of(chief, page(model)) if "COUNT(" in sql and model._meta.db_table in sql
    ]
    assert counts
    assert all(f"LIMIT {base.ROWS_MAX}" in sql for sql in counts)


def test_the_paginator_ends_at_its_bound(monkeypatch):
    monkeypatch.setattr(base, "ROWS_MAX", 3)
    outcomes_record([outcome_make(owner_make()) for _ in range(5)])
    assert base.BoundedPaginator(RelayRequest.objects.order_by("-id"), 2).count == 3


def test_request_detail_costs_the_same_for_many_attempts(chief):
    owner = owner_make()
    few, many = (
        outcome_make(
            owner,
            attempts=tuple(
                attempt_make(channel_id=owner.channel.pk, number=place) for place in range(1, count + 1)
            ),
        )
        for count in (1, 5)
    )
    outcomes_record([few, many])
    chief.get(page(RelayRequest, "change", few.request_id))
    first = len(queries_of(chief, page(RelayRequest, "change", few.request_id)))
    assert len(queries_of(chief, page(RelayRequest, "change", many.request_id))) == first


def test_request_detail_shows_attempts_with_timings_and_ends(chief):
    owner = owner_make()
    attempts = (
        attempt_make(
            channel_id=owner.channel.pk,
            channel_name="north",
            end_reason=EndReason.FIRST_EVENT_TIMEOUT,
            header_ms=4321.5,
        ),
        attempt_make(channel_id=owner.channel.pk, channel_name="south", number=2),
    )
    outcome = outcome_make(owner, attempts=attempts)
    outcomes_record([outcome])
    text = chief.get(page(RelayRequest, "change", outcome.request_id)).content.decode()
    for shown in (
        "north",
        "south",
        "first_event_timeout",
        "4321.5",
        "input 100",
        "output 20",
        owner.tenant.name,
    ):
        assert shown in text
    assert 'name="_save"' not in text


@pytest.fixture
def three_ends():
    owner = owner_make()
    made = {
        reason: outcome_make(
            owner, end_reason=reason, stream_asked=reason is EndReason.COMPLETED, attempts=()
        )
        for reason in (EndReason.COMPLETED, EndReason.COMPLETED_WITHOUT_TERMINAL, EndReason.IDLE_TIMEOUT)
    }
    outcomes_record(list(made.values()))
    return made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"completed", "completed_without_terminal", "idle_timeout"}),
        ("failed=yes", {"idle_timeout"}),
        ("failed=no", {"completed", "completed_without_terminal"}),
        ("end_reason=idle_timeout", {"idle_timeout"}),
        ("end_reason=abandoned", set()),
        ("stream_asked__exact=1", {"completed"}),
        ("q=nobody", set()),
    ],
)
def test_request_filters(chief, three_ends, query, expected):
    answer = chief.get(f"{page(RelayRequest)}?{query}")
    assert {row.end_reason for row in answer.context["cl"].result_list} == expected


def test_request_search_finds_by_id_and_by_tenant(chief, three_ends):
    outcome = three_ends[EndReason.COMPLETED]
    tenant = RelayRequest.objects.first().tenant.name
    for term, count in (
        (outcome.request_id, 1),
        (outcome.request_id.upper().replace("-", ""), 1),
        (tenant, 3),
    ):
        answer = chief.get(page(RelayRequest), {"q": term})
        assert len(answer.context["cl"].result_list) == count


@pytest.mark.parametrize("model", [*PAGES, Attempt], ids=lambda model: model._meta.model_name)
def test_nothing_can_be_deleted(chief, rf, model):
    if model is Attempt:
        assert Attempt not in admin.site._registry
        return
    rows_make(1)
    row = model.objects.first()
    address = page(model, "delete", row.pk)
    assert chief.post(address, {"post": "yes"}).status_code == 403
    answer = chief.post(
        page(model), {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    )
    assert answer.status_code in {200, 302}
    assert model.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize(
    "model", [RelayRequest, Account, LedgerEntry, DeadOutcome], ids=lambda model: model._meta.model_name
)
def test_records_can_be_neither_added_nor_changed(chief, model):
    rows_make(1)
    row = model.objects.first()
    assert chief.get(page(model, "add")).status_code == 403
    assert chief.post(page(model, "change", row.pk), {"reason": "x"}).status_code == 403


# ---- prices


def price_form(**overrides) -> dict[str, str]:
    return {
        "model": "gpt-4o",
        "group": "",
        "effective_from_0": "2026-01-01",
        "effective_from_1": "00:00:00",
        "input": "0.15",
        "output": "0.6",
    } | overrides


def test_a_price_is_added_through_the_service(chief):
    assert chief.get(page(Price, "add")).status_code == 200
    assert chief.post(page(Price, "add"), price_form()).status_code == 302
    price = Price.objects.get()
    assert (price.model, price.input, price.output, price.cached_input) == (
        "gpt-4o",
        Decimal("0.15"),
        Decimal("0.6"),
        None,
    )
    assert price.version > 0


def test_changing_a_price_makes_a_new_row(chief):
    old = price_set(
        model="gpt-4o",
        parts=PriceParts(input=Decimal("0.15"), output=Decimal("0.6")),
        effective_from=NEW_YEAR,
    ).price
    answer = chief.post(
        page(Price, "change", old.pk), {"input": "0.15", "output": "0.75", "cached_input": "0.075"}
    )
    assert answer.status_code == 302
    old.refresh_from_db()
    assert old.is_closed
    assert old.output == Decimal("0.6")
    new = Price.objects.get(is_closed=False)
    assert (new.model, new.effective_from, new.output, new.cached_input) == (
        "gpt-4o",
        NEW_YEAR,
        Decimal("0.75"),
        Decimal("0.075"),
    )
    assert chief.post(page(Price, "change", old.pk), {"input": "9"}).status_code == 403


def test_a_negative_price_is_told_at_its_field(chief):
    answer = chief.post(page(Price, "add"), price_form(input="-1"))
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == ["input"]
    assert Price.objects.count() == 0


def test_prices_are_closed_after_a_question(chief):
    price = price_set(model="m", parts=PriceParts(input=Decimal(1)), effective_from=NEW_YEAR).price
    form = {"action": "close_prices", "_selected_action": [price.pk]}
    assert chief.post(page(Price), form).status_code == 200
    price.refresh_from_db()
    assert not price.is_closed
    assert chief.post(page(Price), form | {"confirmed": "1"}).status_code == 302
    price.refresh_from_db()
    assert price.is_closed


# ---- dead outcomes


def test_replay_writes_what_can_be_written(chief, monkeypatch):
    outcome = outcome_make(owner_make())
    with monkeypatch.context() as patch:
        patch.setattr(booking, "rows_insert_new", lambda rows: 1 / 0)
        outcomes_record([outcome])
    hopeless = outcome_make(owner_make(), status=-1)
    outcomes_record([hopeless])
    chosen = list(DeadOutcome.objects.values_list("pk", flat=True))
    answer = chief.post(page(DeadOutcome), {"action": "replay", "_selected_action": chosen}, follow=True)
    told = " ".join(str(message) for message in answer.context["messages"])
    assert "1 outcome written." in told
    assert "1 outcome failed again." in told
    assert str(RelayRequest.objects.get().pk) == outcome.request_id
    assert DeadOutcome.objects.get(request_id=outcome.request_id).resolved_at is not None
    assert DeadOutcome.objects.get(request_id=hopeless.request_id).failures == 2


# ---- who may


def test_amounts_are_shown_in_usd(chief):
    account_open(tenant=owner_make().tenant, balance_usd=Decimal("12.5"))
    assert "12.50" in chief.get(page(Account)).content.decode()
    assert "12.50" in chief.get(page(LedgerEntry)).content.decode()


def test_an_accounts_link_shows_its_entries_only(chief):
    first, second = owner_make().tenant, owner_make().tenant
    for tenant in (first, second):
        account_open(tenant=tenant, balance_usd=Decimal(1))
    address = f"{page(LedgerEntry)}?account__id__exact={Account.objects.get(tenant=first).pk}"
    assert address in chief.get(page(Account)).content.decode()
    entries = chief.get(address).context["cl"].result_list
    assert [entry.account.tenant for entry in entries] == [first]


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.OPERATOR, {RelayRequest, Price, DeadOutcome}),
        (Role.BILLING, set(PAGES)),
        (Role.VIEWER, set()),
        (None, set()),
    ],
)
def test_roles_see_their_pages_only(client, role, allowed):
    user = User.objects.create(username="someone", is_staff=True)
    if role:
        user.groups.add(Group.objects.get(name=role.value))
    client.force_login(user)
    seen = {model for model in PAGES if client.get(page(model)).status_code == 200}
    assert seen == allowed
    assert (client.get(page(Price, "add")).status_code == 200) is (role is Role.BILLING)
