"""Charges that were estimated, and what the upstream tells of them afterwards: booked once, to the nano."""

import datetime
from decimal import Decimal
from uuid import UUID

import pytest
from django.urls import reverse
from django.utils import timezone

from billing.admission import open_records
from billing.core.prices import PriceParts
from billing.models import (
    Account,
    Attempt,
    EntryKind,
    LedgerEntry,
    RelayRequest,
    UsageDaily,
    UsageLookup,
    UsageRecord,
)
from billing.selectors.explained_charges import entries_of, explained_charge
from billing.selectors.whereabouts import whereabouts
from billing.services import ledger_entries, usage_lookups
from billing.services.later_usage import later_usage_book
from billing.services.ledger import account_refund, refundable_nano
from billing.services.ledger_check import ledger_check
from billing.services.prices import cost_price_set, group_multiplier_set, price_set
from billing.services.requests import requests_record
from billing.services.retention import requests_delete_old
from billing.services.usage_lookups import (
    TRIES_MAX,
    usage_lookup_failed,
    usage_lookups_claim,
)
from channels_admin.models import Channel, RuntimeFlag
from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage
from tests.billing.books import assert_books_balance
from tests.factories.billing import (
    attempt_make,
    open_record_make,
    outcome_make,
    owner_make,
    settlement_make,
)
from tests.factories.channels import a_staff_user
from tests.factories.money import ALWAYS, a_price

pytestmark = pytest.mark.django_db

IN_NANO, OUT_NANO = 1_000, 2_000
ESTIMATE = TokenUsage(input=100, output=50)
CHARGED_NANO = 100 * IN_NANO + 50 * OUT_NANO
STARTED = 1_800_000_000.0


@pytest.fixture
def owner():
    owner = owner_make()
    Channel.objects.filter(pk=owner.channel.pk).update(kind="openrouter")
    return owner


@pytest.fixture(autouse=True)
def embedded(memory_settings):
    """Balances are published to the store of this process."""


def estimated(owner, *, price=None, answer_id="gen-1", usage=ESTIMATE, attempt=None, **overrides):
    """An unwritten settlement of what was counted, the usage having never come."""
    one = attempt_make(channel_id=owner.channel.pk, usage=None, answer_id=answer_id, **(attempt or {}))
    fields = {
        "price_id": (price or a_price()).pk,
        "usage_source": "estimated",
        "usage_method": "o200k",
        "usage": usage,
        "attempts": (one,),
        **overrides,
    }
    return settlement_make(owner, fields.pop("amount_nano", CHARGED_NANO), **fields)


def recorded(owner, **overrides) -> UUID:
    settlement = estimated(owner, **overrides)
    assert requests_record([settlement]).new
    return UUID(settlement.outcome.request_id)


def make_due() -> None:
    UsageLookup.objects.update(due_at=timezone.now() - datetime.timedelta(seconds=1))


# When an upstream is asked.


def test_an_estimate_is_asked_about_after_a_while(owner):
    before = ledger_entries.database_now()
    key = recorded(owner)
    lookup = UsageLookup.objects.get()
    assert (lookup.pk, lookup.channel_id, lookup.upstream_key_id) == (key, owner.channel.pk, 7)
    assert (lookup.answer_id, lookup.state, lookup.tries) == ("gen-1", "pending", 0)
    assert datetime.timedelta(seconds=29) < lookup.due_at - before < datetime.timedelta(seconds=60)
    assert Attempt.objects.get().answer_id == "gen-1"
    assert usage_lookups_claim() == []


@pytest.mark.parametrize(
    "overrides",
    [
        {"usage_source": "reported"},
        {"answer_id": ""},
        {"price_id": None, "amount_nano": 0},
        {"attempt": {"upstream_key_id": None}},
        {"usage": TokenUsage(input=100, output=50, images=1)},
    ],
)
def test_what_cannot_be_put_right_is_not_asked_about(owner, overrides):
    recorded(owner, **overrides)
    assert not UsageLookup.objects.exists()


def test_other_kinds_are_not_asked():
    recorded(owner_make())
    assert not UsageLookup.objects.exists()


def test_the_attempt_that_answered_is_asked_about(owner):
    other = owner_make()
    attempts = (
        attempt_make(number=1, channel_id=other.channel.pk, committed=False, answer_id="chatcmpl-0"),
        attempt_make(number=2, channel_id=owner.channel.pk, answer_id="gen-2", upstream_key_id=8),
    )
    recorded(owner, attempts=attempts)
    lookup = UsageLookup.objects.get()
    assert (lookup.answer_id, lookup.upstream_key_id) == ("gen-2", 8)


def test_a_repeated_settlement_is_asked_about_once(owner):
    settlement = estimated(owner)
    requests_record([settlement])
    requests_record([settlement, settlement])
    assert UsageLookup.objects.count() == 1


def test_an_abandoned_request_is_asked_about_when_its_outcome_comes(owner):
    answered = attempt_make(channel_id=owner.channel.pk, answer_id="gen-1")
    record = open_record_make(owner, 40, price_id=a_price().pk, attempts=(answered,))
    requests_record([record])
    assert not UsageLookup.objects.exists()
    key = recorded(owner, request_id=record.draft.request_id)
    assert UsageLookup.objects.get().pk == key
    later_usage_book(request_id=key, usage=TokenUsage(input=7, output=3))
    assert RelayRequest.objects.get().cost_nano == 7 * IN_NANO + 3 * OUT_NANO
    assert len(entries_of(RelayRequest.objects.get())) == 3
    assert_books_balance()


def test_a_batch_writes_all_its_look_ups(owner):
    price = a_price()
    batch = [estimated(owner, price=price, answer_id=f"gen-{number}") for number in range(30)]
    batch.append(settlement_make(owner, 5))
    assert len(requests_record(batch).new) == 31
    assert UsageLookup.objects.count() == 30


# Tries.


def test_a_try_is_begun_once_and_the_next_is_due_later_each_time(owner):
    recorded(owner)
    waits = []
    for number in range(1, TRIES_MAX + 1):
        make_due()
        now = ledger_entries.database_now()
        [claim] = usage_lookups_claim()
        assert (claim.tries, claim.answer_id) == (number, "gen-1")
        assert usage_lookups_claim() == []
        waits.append(round((UsageLookup.objects.get().due_at - now).total_seconds()))
        usage_lookup_failed(claim, error_class="status_404")
    assert waits == [60, 120, 240, 480, 960, 1920, 3840, 7680]
    lookup = UsageLookup.objects.get()
    assert (lookup.state, lookup.tries, lookup.error_class) == ("given_up", 8, "status_404")
    make_due()
    assert usage_lookups_claim() == []


def test_a_last_try_that_nobody_heard_of_again_is_given_up(owner):
    recorded(owner)
    make_due()
    UsageLookup.objects.update(tries=TRIES_MAX)
    assert usage_lookups_claim() == []
    lookup = UsageLookup.objects.get()
    assert (lookup.state, lookup.error_class) == ("given_up", "interrupted")


def test_somebody_elses_claim_is_not_taken(owner):
    """Both have read the row as due; one was first."""
    recorded(owner)
    make_due()
    row = UsageLookup.objects.get()
    now = ledger_entries.database_now()
    assert usage_lookups._claim(row, now) is not None
    assert usage_lookups._claim(row, now) is None
    assert UsageLookup.objects.get().tries == 1


def test_a_failure_told_late_does_not_touch_what_came_meanwhile(owner):
    key = recorded(owner)
    make_due()
    [claim] = usage_lookups_claim()
    later_usage_book(request_id=key, usage=ESTIMATE)
    usage_lookup_failed(claim, error_class="timeout")
    lookup = UsageLookup.objects.get()
    assert (lookup.state, lookup.error_class) == ("done", "")


def test_twenty_at_once(owner):
    price = a_price()
    requests_record([estimated(owner, price=price) for _ in range(25)])
    make_due()
    assert [len(usage_lookups_claim()) for _ in range(3)] == [20, 5, 0]


# What is booked.


@pytest.mark.parametrize(
    "told",
    [
        TokenUsage(input=90, cached_input=40, output=20, reasoning=5),
        TokenUsage(input=100, output=4_000),
        TokenUsage(input=1, output=0),
    ],
)
def test_the_difference_is_an_entry_of_its_own(owner, told):
    key = recorded(owner)
    expected = (told.input or 0) * IN_NANO + (told.output or 0) * OUT_NANO
    assert later_usage_book(request_id=key, usage=told)
    charge, correction = LedgerEntry.objects.order_by("account_seq")
    assert (charge.source, charge.amount_nano) == (f"charge:{key}", -CHARGED_NANO)
    assert (correction.source, correction.kind) == (f"correction:{key}:later_usage", EntryKind.CORRECTION)
    assert (correction.amount_nano, correction.request_id) == (CHARGED_NANO - expected, key)
    row, usage = RelayRequest.objects.get(), UsageRecord.objects.get()
    assert (row.cost_nano, row.estimated) == (expected, False)
    assert (usage.source, usage.method) == ("reported", "later_usage")
    assert (usage.input, usage.output, usage.cached_input) == (told.input, told.output, told.cached_input)
    attempt = Attempt.objects.get()
    assert (attempt.usage["input"], attempt.usage["output"]) == (told.input, told.output)
    assert UsageLookup.objects.get().state == "done"
    assert Account.objects.get().balance_nano == -expected
    daily = UsageDaily.objects.get()
    assert (daily.requests, daily.estimated, daily.input, daily.output) == (1, 0, told.input, told.output)
    assert daily.charged_nano == expected
    assert_books_balance()
    ledger_check(budget_s=5)


def test_twice_is_one_correction(owner):
    key = recorded(owner)
    told = TokenUsage(input=1, output=1)
    assert later_usage_book(request_id=key, usage=told)
    assert not later_usage_book(request_id=key, usage=told)
    assert not later_usage_book(request_id=key, usage=TokenUsage(input=2, output=2))
    assert LedgerEntry.objects.count() == 2
    assert_books_balance()


def test_an_estimate_that_was_right_needs_no_entry(owner):
    key = recorded(owner)
    assert later_usage_book(request_id=key, usage=ESTIMATE)
    assert LedgerEntry.objects.count() == 1
    row = RelayRequest.objects.get()
    assert (row.cost_nano, row.estimated, row.usage.source) == (CHARGED_NANO, False, "reported")
    assert UsageDaily.objects.get().estimated == 0
    assert_books_balance()


def test_the_price_and_the_multiplier_are_those_of_the_admission(owner):
    rate = {"group": "default", "effective_from": ALWAYS}
    multiplier = group_multiplier_set(multiplier=Decimal("1.5"), **rate).multiplier
    old = a_price(input="1", output="2")
    key = recorded(owner, price=old, multiplier_id=multiplier.pk, amount_nano=CHARGED_NANO * 3 // 2)
    a_price(input="7", output="9")
    group_multiplier_set(multiplier=Decimal(4), **rate)
    later_usage_book(request_id=key, usage=TokenUsage(input=11, output=3))
    assert RelayRequest.objects.get().cost_nano == (11 * IN_NANO + 3 * OUT_NANO) * 3 // 2
    assert_books_balance()


def test_counts_belong_to_the_day_of_the_charge_and_money_to_that_of_the_entry(owner, monkeypatch):
    day = datetime.datetime(2027, 3, 1, 23, 59, tzinfo=datetime.UTC)
    monkeypatch.setattr(ledger_entries, "database_now", lambda: day)
    key = recorded(owner)
    monkeypatch.setattr(ledger_entries, "database_now", lambda: day + datetime.timedelta(minutes=2))
    later_usage_book(request_id=key, usage=TokenUsage(input=10, output=5))
    rows = {row.day.day: row for row in UsageDaily.objects.all()}
    money = {number: row.charged_nano for number, row in rows.items()}
    assert money == {1: CHARGED_NANO, 2: -CHARGED_NANO * 9 // 10}
    assert [(row.requests, row.input, row.output) for row in rows.values()] == [(1, 10, 5), (0, 0, 0)]
    assert_books_balance()


def test_what_it_cost_the_operator_is_worked_out_anew(owner):
    moment = datetime.datetime.fromtimestamp(STARTED, datetime.UTC)

    def cost_price(usd: str):
        parts = PriceParts(input=Decimal(usd), output=Decimal(usd))
        return cost_price_set(
            channel_id=owner.channel.pk, model="gpt-4o-2024", effective_from=ALWAYS, parts=parts
        ).cost_price

    old = cost_price("0.5")
    key = recorded(owner, operator_costs_nano={1: 150 * 500})
    new = cost_price("3")  # closes the old row, which was in force when the request was admitted
    type(old).objects.filter(pk=old.pk).update(
        created_at=moment - datetime.timedelta(days=1), effective_to=moment + datetime.timedelta(days=1)
    )
    type(new).objects.filter(pk=new.pk).update(created_at=moment + datetime.timedelta(days=1))
    later_usage_book(request_id=key, usage=TokenUsage(input=10, output=5))
    assert RelayRequest.objects.get().operator_cost_nano == 15 * 500
    assert Attempt.objects.get().operator_cost_nano == 15 * 500
    assert UsageDaily.objects.get().operator_cost_nano == 15 * 500
    assert_books_balance()


def test_a_refunded_request_is_left_as_a_person_settled_it(owner):
    key = recorded(owner)
    account_refund(request_id=key, operation="op", reason="r", actor="a")
    assert not later_usage_book(request_id=key, usage=TokenUsage(input=1, output=1))
    lookup = UsageLookup.objects.get()
    assert (lookup.state, lookup.error_class) == ("given_up", "refunded")
    assert Account.objects.get().balance_nano == 0
    assert RelayRequest.objects.get().cost_nano == CHARGED_NANO
    assert_books_balance()


def test_a_refund_afterwards_gives_back_what_was_charged_in_the_end(owner):
    key = recorded(owner)
    later_usage_book(request_id=key, usage=TokenUsage(input=10, output=5))
    assert refundable_nano(key) == 10 * IN_NANO + 5 * OUT_NANO
    account_refund(request_id=key, operation="op", reason="r", actor="a")
    assert Account.objects.get().balance_nano == 0


def test_an_amount_that_cannot_be_true_is_not_booked(owner):
    parts = PriceParts(input=Decimal(900_000), output=Decimal(0))
    dear = price_set(model="*", group="", effective_from=ALWAYS, parts=parts).price
    key = recorded(owner, price=dear, amount_nano=1)
    with pytest.raises(ValueError, match="out of range"):
        later_usage_book(request_id=key, usage=TokenUsage(input=10**9, output=0))
    assert LedgerEntry.objects.count() == 1
    assert UsageLookup.objects.get().state == "pending"
    assert_books_balance()


@pytest.mark.django_db(transaction=True)
def test_the_store_hears_the_new_balance_after_the_commit(owner, monkeypatch):
    told = []
    key = recorded(owner)
    store = open_records()
    monkeypatch.setattr(store, "accounts_put", told.append)
    later_usage_book(request_id=key, usage=TokenUsage(input=1, output=1))
    [[state]] = told
    assert (state.account_id, state.balance_nano, state.seq) == (owner.tenant.pk, -IN_NANO - OUT_NANO, 2)


# Who sees it.


def test_a_request_is_kept_while_its_upstream_may_still_tell(owner):
    key = recorded(owner)
    RuntimeFlag.objects.filter(name="RETENTION_DAYS").update(value=1)
    old = ledger_entries.database_now() - datetime.timedelta(days=2)
    with pytest.MonkeyPatch.context() as patch:
        # Ids begin with the time, which is that of this test.
        patch.setattr("billing.services.retention._cutoff", lambda: old + datetime.timedelta(days=9))
        assert requests_delete_old(open_records()) == 0
        later_usage_book(request_id=key, usage=ESTIMATE)
        assert requests_delete_old(open_records()) == 1
    assert not UsageLookup.objects.exists()


def test_where_tells_of_it(owner):
    key = recorded(owner, end_reason=EndReason.CLIENT_DISCONNECTED)
    found = [one.text for one in whereabouts(str(key)) if one.place == "usage look-up"]
    assert found[0].startswith("pending, tries 0, due 20")
    assert found[0].endswith("UTC, answer gen-1")
    later_usage_book(request_id=key, usage=TokenUsage(input=1, output=1))
    texts = [f"{one.place}: {one.text}" for one in whereabouts(str(key))]
    assert "usage look-up: done, tries 0, answer gen-1" in texts
    assert any(text.startswith(f"ledger: correction:{key}:later_usage: ") for text in texts)


def test_the_requests_page_shows_it(client, owner, settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "whitenoise" not in name]
    key = recorded(owner, amount_nano=CHARGED_NANO)
    client.force_login(a_staff_user("billing"), backend="django.contrib.auth.backends.ModelBackend")

    def page() -> str:
        answer = client.get(reverse("admin:billing_relayrequest_change", args=[key]))
        assert answer.status_code == 200
        return answer.content.decode()

    text = page()
    assert "pending (0)" in text
    assert "gen-1" in text
    make_due()
    [claim] = usage_lookups_claim()
    usage_lookup_failed(claim, error_class="status_404")
    assert "pending (1), status_404" in page()
    later_usage_book(request_id=key, usage=TokenUsage(input=1, output=1))
    text = page()
    assert "done (1)" in text
    assert "What the upstream told afterwards." in text
    assert explained_charge(RelayRequest.objects.get()).is_same


def test_a_request_that_was_never_asked_about_says_so(client, owner, settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "whitenoise" not in name]
    requests_record([settlement_make(outcome=outcome_make(owner))])
    client.force_login(a_staff_user("billing"), backend="django.contrib.auth.backends.ModelBackend")
    key = RelayRequest.objects.get().pk
    answer = client.get(reverse("admin:billing_relayrequest_change", args=[key]))
    assert answer.status_code == 200
