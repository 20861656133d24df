"""Settlements become charges: one entry a request, the account's chain, roll-ups that add up to the ledger."""

import asyncio
import datetime
from uuid import UUID

import pytest

from billing.admission import SettledRecord
from billing.admission.memory import MemoryStore
from billing.admission.open_record import AccountState
from billing.models import (
    Account,
    Attempt,
    DeadOutcome,
    LedgerEntry,
    RelayRequest,
    UsageDaily,
    UsageHourly,
    UsageRecord,
)
from billing.outcome_codec import open_record_encode, outcome_encode, settlement_encode
from billing.services import booking, ledger_entries
from billing.services.replay import dead_outcome_replay
from billing.services.requests import requests_record
from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage
from tests.billing.books import assert_books_balance
from tests.factories.billing import (
    attempt_make,
    open_record_make,
    outcome_make,
    owner_make,
    request_id_make,
    settlement_make,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return owner_make()


def balance(owner) -> int:
    return Account.objects.get(tenant=owner.tenant).balance_nano


@pytest.mark.parametrize("amount", [0, 1, 1_234_567_890])
def test_a_settlement_is_charged_once(owner, amount):
    settlement = settlement_make(owner, amount, price_id=7, multiplier_id=8)
    recording = requests_record([settlement])
    entry = LedgerEntry.objects.get()
    assert (entry.kind, entry.source) == ("charge", f"charge:{settlement.outcome.request_id}")
    assert (entry.amount_nano, entry.balance_after_nano, entry.account_seq) == (-amount, -amount, 1)
    assert entry.request_id == UUID(settlement.outcome.request_id)
    row = RelayRequest.objects.get()
    assert (row.cost_nano, row.price_id, row.multiplier_id, row.state) == (amount, 7, 8, "final")
    assert recording.accounts == (AccountState(owner.tenant.pk, -amount, 1),)
    again = requests_record([settlement])
    assert again.repeated == {settlement.outcome.request_id}
    assert again.accounts == recording.accounts
    assert LedgerEntry.objects.count() == 1
    assert_books_balance()


def test_a_balance_may_become_negative(owner):
    requests_record([settlement_make(owner, 3), settlement_make(owner, 4)])
    assert balance(owner) == -7


@pytest.mark.parametrize(
    ("source", "method", "estimated"),
    [("reported", "", False), ("estimated", "o200k", True), ("none", "", False)],
)
def test_where_the_usage_comes_from_is_kept(owner, source, method, estimated):
    usage = None if source == "none" else TokenUsage(input=5, output=6)
    requests_record([settlement_make(owner, 1, usage=usage, usage_source=source, usage_method=method)])
    usage_row, row = UsageRecord.objects.get(), RelayRequest.objects.get()
    assert (usage_row.source, usage_row.method, row.estimated) == (source, method, estimated)
    assert_books_balance()


def test_operator_costs_and_duplicates(owner):
    attempts = tuple(
        attempt_make(channel_id=owner.channel.pk, number=number, possible_duplicate_charge=number == 2)
        for number in (1, 2, 3)
    )
    requests_record([settlement_make(owner, 1, attempts=attempts, operator_costs_nano={1: 30, 3: 12})])
    requests_record([settlement_make(owner, 1)])
    row = RelayRequest.objects.order_by("pk").first()
    assert (row.operator_cost_nano, row.possible_duplicates) == (42, 1)
    costs = (
        Attempt.objects.filter(request=row).order_by("number").values_list("operator_cost_nano", flat=True)
    )
    assert list(costs) == [30, None, 12]
    assert RelayRequest.objects.order_by("pk").last().operator_cost_nano is None
    daily = UsageDaily.objects.get()
    assert (daily.operator_cost_nano, daily.possible_duplicates) == (42, 1)


def test_roll_ups_sum_what_was_recorded(owner):
    usage = TokenUsage(
        input=100, cached_input=40, cache_write_5m=3, cache_write_1h=4, output=20, reasoning=5, images=2
    )
    broken = attempt_make(channel_id=owner.channel.pk, end_reason=EndReason.UPSTREAM_RESET, committed=True)
    refused = attempt_make(channel_id=owner.channel.pk, end_reason=EndReason.CONNECT_FAILED, committed=False)
    requests_record(
        [
            settlement_make(owner, 10, usage=usage, first_event_ms=50.0),
            settlement_make(
                owner,
                20,
                usage=usage,
                usage_source="estimated",
                end_reason=EndReason.UPSTREAM_RESET,
                first_event_ms=50.5,
                attempts=(broken,),
            ),
            settlement_make(
                owner,
                0,
                usage=None,
                end_reason=EndReason.CONNECT_FAILED,
                first_event_ms=None,
                attempts=(refused,),
            ),
        ]
    )
    requests_record([settlement_make(owner, 5, usage=usage, first_event_ms=10**9)])
    for row in (UsageHourly.objects.get(), UsageDaily.objects.get()):
        assert (row.tenant_id, row.api_key_id) == (owner.tenant.pk, owner.api_key.pk)
        assert (row.model, row.channel_id) == ("gpt-4o", owner.channel.pk)
        assert (row.requests, row.successes, row.incomplete, row.estimated) == (4, 2, 1, 1)
        assert (row.input, row.cached_input, row.cache_write, row.output) == (300, 120, 21, 60)
        assert (row.reasoning, row.images, row.charged_nano) == (15, 6, 35)
        assert row.first_event_histogram == [1, 1, *[0] * 12, 1]
    entry = LedgerEntry.objects.latest("id")
    assert UsageDaily.objects.get().day == entry.created_at.date()
    assert UsageHourly.objects.get().hour == entry.created_at.replace(minute=0, second=0, microsecond=0)
    assert_books_balance()


def test_roll_ups_are_kept_apart_by_model_key_and_channel(owner):
    other = owner_make()
    elsewhere = attempt_make(channel_id=other.channel.pk, number=2)
    first = attempt_make(channel_id=owner.channel.pk, committed=False, end_reason=EndReason.CONNECT_FAILED)
    requests_record(
        [
            settlement_make(owner, 1),
            settlement_make(owner, 2, model_asked="other"),
            settlement_make(owner, 4, attempts=(first, elsewhere)),
            settlement_make(owner, 8, attempts=()),
            settlement_make(other, 16),
        ]
    )
    found = {(row.tenant_id, row.model, row.channel_id): row.charged_nano for row in UsageDaily.objects.all()}
    mine, its = owner.tenant.pk, other.tenant.pk
    assert found == {
        (mine, "gpt-4o", owner.channel.pk): 1,
        (mine, "other", owner.channel.pk): 2,
        (mine, "gpt-4o", other.channel.pk): 4,
        (mine, "gpt-4o", 0): 8,
        (its, "gpt-4o", other.channel.pk): 16,
    }
    assert_books_balance()


def test_midnight_divides_days_by_the_time_of_the_entry(owner, monkeypatch):
    moment = datetime.datetime(2027, 1, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
    monkeypatch.setattr(ledger_entries, "database_now", lambda: moment)
    requests_record([settlement_make(owner, 1)])
    monkeypatch.setattr(ledger_entries, "database_now", lambda: moment + datetime.timedelta(microseconds=1))
    requests_record([settlement_make(owner, 2)])
    assert dict(UsageDaily.objects.values_list("day", "charged_nano")) == {
        datetime.date(2027, 1, 31): 1,
        datetime.date(2027, 2, 1): 2,
    }
    assert [row.hour.hour for row in UsageHourly.objects.order_by("hour")] == [23, 0]
    assert_books_balance()


def test_nonsense_counts_do_not_poison_a_roll_up(owner):
    usage = TokenUsage(input=2**63 - 1, output=2**63 - 1)
    requests_record([settlement_make(owner, 1, usage=usage) for _ in range(3)])
    requests_record([settlement_make(owner, 1)])
    assert DeadOutcome.objects.count() == 0
    assert RelayRequest.objects.count() == 4
    assert UsageDaily.objects.get().input == 3 * 10**12 + 100


@pytest.mark.parametrize("amount", [-1, 10**15 + 1, 2**63 - 1, 10**30])
def test_an_absurd_amount_is_kept_for_a_person(owner, amount):
    good = settlement_make(owner, 5)
    recording = requests_record([settlement_make(owner, amount), good])
    assert recording.new == {good.outcome.request_id}
    assert DeadOutcome.objects.get().error_class == "ValueError"
    assert balance(owner) == -5
    assert_books_balance()


def test_a_replayed_outcome_is_charged_and_holds_nothing_more(
    owner, monkeypatch, django_capture_on_commit_callbacks
):
    store = MemoryStore()
    monkeypatch.setattr("billing.services.replay.open_records", lambda: store.workers)
    settlement = settlement_make(owner, 77)
    record = SettledRecord(settlement.outcome.request_id, b"", owner.tenant.pk, 77)
    asyncio.run(store.settle([record]))
    with monkeypatch.context() as patch:
        patch.setattr(booking, "rollups_add", lambda *_args, **_named: 1 / 0)
        requests_record([settlement])
    assert LedgerEntry.objects.count() == 0
    with django_capture_on_commit_callbacks(execute=True):
        assert dead_outcome_replay(DeadOutcome.objects.get())
        assert store.open_amounts() == {owner.tenant.pk: 77}
    assert store.open_amounts() == {}
    assert store._book.accounts.available(owner.tenant.pk) == balance(owner) == -77
    assert_books_balance()


@pytest.mark.parametrize("kind", ["settlement", "open record", "bare outcome"])
def test_every_kind_of_payload_can_be_replayed(owner, kind):
    request_id = request_id_make()
    payload, cost = {
        "settlement": (settlement_encode(settlement_make(owner, 5, request_id=request_id)), 5),
        "open record": (open_record_encode(open_record_make(owner, 6, request_id=request_id)), 6),
        "bare outcome": (outcome_encode(outcome_make(owner, request_id=request_id)), 0),
    }[kind]
    dead = DeadOutcome.objects.create(request_id=request_id, payload=payload, error_class="Boom")
    assert dead_outcome_replay(dead)
    assert RelayRequest.objects.get().cost_nano == cost
    assert_books_balance()
