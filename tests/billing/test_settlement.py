"""Settlements become charges: one entry a request, the account's chain, roll-ups that add up to the ledger."""

import datetime
import threading
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from billing.admission.open_record import AccountState, OpenAttempt
from billing.models import (
    Account,
    Attempt,
    DeadOutcome,
    EntryKind,
    LedgerEntry,
    RelayRequest,
    UsageDaily,
    UsageHourly,
    UsageRecord,
)
from billing.outcome_codec import open_record_encode, outcome_encode, settlement_encode
from billing.services import account_states, booking, ledger_entries
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


def test_a_replayed_outcome_is_charged(owner, monkeypatch, django_capture_on_commit_callbacks):
    told = []
    monkeypatch.setattr(account_states, "_try_to_put", told.extend)
    settlement = settlement_make(owner, 77)
    with monkeypatch.context() as patch:
        patch.setattr(booking, "rollups_add", lambda shares: 1 / 0)
        requests_record([settlement])
    assert LedgerEntry.objects.count() == 0
    with django_capture_on_commit_callbacks(execute=True):
        assert dead_outcome_replay(DeadOutcome.objects.get())
    assert told == [AccountState(owner.tenant.pk, -77, 1)]
    assert balance(owner) == -77
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


# ---- abandoned, and late outcomes


def test_an_abandoned_request_is_charged_for_its_last_checkpoint(owner):
    record = open_record_make(
        owner,
        40,
        price_id=3,
        attempts=(
            OpenAttempt(1, owner.channel.pk, "north", 9, "gpt-4o-2024", 1_800_000_000.0, ended=True),
            OpenAttempt(2, owner.channel.pk, "north", 9, "gpt-4o-2024", 1_800_000_003.5),
        ),
    )
    recording = requests_record([record])
    assert recording.accounts == (AccountState(owner.tenant.pk, -40, 1),)
    row = RelayRequest.objects.get()
    assert (row.state, row.end_reason, row.cost_nano, row.estimated) == ("abandoned", "abandoned", 40, True)
    attempts = list(Attempt.objects.order_by("number"))
    assert [(one.number, one.end_reason, one.channel_name) for one in attempts] == [
        (1, "abandoned", "north"),
        (2, "abandoned", "north"),
    ]
    assert UsageRecord.objects.get().source == "estimated"
    assert UsageDaily.objects.get().charged_nano == 40
    assert requests_record([record]).new == frozenset()
    assert_books_balance()


@pytest.mark.parametrize("final", [100, 40, 0])
def test_a_late_outcome_outranks_an_abandonment(owner, final):
    other = owner_make()
    request_id = request_id_make()
    requests_record([settlement_make(owner, 1)])
    requests_record([open_record_make(owner, 40, request_id=request_id, first_event_ms=7.0)])
    settlement = settlement_make(
        owner,
        final,
        request_id=request_id,
        usage=TokenUsage(input=1, output=2),
        attempts=(attempt_make(channel_id=other.channel.pk),),
        first_event_ms=900.0,
    )
    recording = requests_record([settlement])
    assert recording.new == {request_id}
    row = RelayRequest.objects.get(pk=request_id)
    assert (row.state, row.end_reason, row.cost_nano, row.estimated) == ("final", "completed", final, False)
    usage = UsageRecord.objects.get(request=row)
    assert (usage.source, usage.input, usage.output) == ("reported", 1, 2)
    assert [one.channel_id for one in Attempt.objects.filter(request=row)] == [other.channel.pk]
    correction = LedgerEntry.objects.get(source=f"correction:{request_id}:late_outcome")
    assert (correction.kind, correction.amount_nano) == (EntryKind.CORRECTION, 40 - final)
    assert balance(owner) == -final - 1
    by_channel = {one.channel_id: one for one in UsageDaily.objects.all()}
    assert by_channel[other.channel.pk].charged_nano == final
    assert by_channel[other.channel.pk].input == 1
    assert by_channel[owner.channel.pk].charged_nano == 1
    if 0 in by_channel:  # the abandoned draft had no attempt
        assert (by_channel[0].requests, by_channel[0].charged_nano, by_channel[0].input) == (0, 0, 0)
        assert not any(by_channel[0].first_event_histogram)
    assert_books_balance()
    assert requests_record([settlement]).new == frozenset()
    assert requests_record([open_record_make(owner, 40, request_id=request_id)]).new == frozenset()
    assert LedgerEntry.objects.count() == 3
    assert_books_balance()


def test_a_correction_counts_on_the_day_it_is_posted(owner, monkeypatch):
    day = datetime.datetime(2027, 3, 1, 12, tzinfo=datetime.UTC)
    monkeypatch.setattr(ledger_entries, "database_now", lambda: day)
    record = open_record_make(owner, 40)
    requests_record([record])
    monkeypatch.setattr(ledger_entries, "database_now", lambda: day + datetime.timedelta(days=2))
    requests_record([settlement_make(owner, 100, request_id=record.draft.request_id, attempts=())])
    rows = {row.day.day: row for row in UsageDaily.objects.all()}
    assert {number: (row.requests, row.charged_nano) for number, row in rows.items()} == {
        1: (1, 40),
        3: (0, 60),
    }
    assert rows[1].successes == 1
    assert_books_balance()


def test_another_tenants_outcome_takes_no_abandoned_request_over(owner):
    record = open_record_make(owner, 40)
    requests_record([record])
    stranger = settlement_make(owner_make(), 1, request_id=record.draft.request_id)
    assert requests_record([stranger]).dead == {record.draft.request_id}
    assert RelayRequest.objects.get().tenant_id == owner.tenant.pk
    assert_books_balance()


def test_a_batch_of_everything(owner):
    others = [owner_make() for _ in range(3)]
    late = open_record_make(owner, 9)
    known = settlement_make(others[0], 4)
    requests_record([late, known])
    batch = [
        settlement_make(owner, 50, request_id=late.draft.request_id),
        known,
        *(settlement_make(one, 3) for one in others),
        settlement_make(owner, -1),
    ]
    recording = requests_record(batch)
    assert (len(recording.new), len(recording.repeated), len(recording.dead)) == (4, 1, 1)
    assert {state.account_id: state.balance_nano for state in recording.accounts} == {
        owner.tenant.pk: -50,
        others[0].tenant.pk: -7,
        others[1].tenant.pk: -3,
        others[2].tenant.pk: -3,
    }
    assert_books_balance()


# ---- many workers


@pytest.mark.django_db(transaction=True)
def test_two_threads_with_overlapping_batches_charge_once():
    owners = [owner_make() for _ in range(5)]
    abandoned = [open_record_make(owners[number % 5], 3) for number in range(20)]
    requests_record(abandoned)
    settlements = [settlement_make(owners[number % 5], number) for number in range(100)]
    settlements += [
        settlement_make(owners[number % 5], 10, request_id=record.draft.request_id)
        for number, record in enumerate(abandoned)
    ]
    batches = [settlements[:80], list(reversed(settlements[40:])), settlements[20:], settlements[::-1][:90]]
    gate, errors = threading.Barrier(4), []

    def work(batch) -> None:
        try:
            gate.wait(5)
            for start in range(0, len(batch), 20):
                requests_record(batch[start : start + 20])
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert RelayRequest.objects.filter(state="final").count() == 120
    assert LedgerEntry.objects.count() == 140
    assert_books_balance()


@pytest.mark.django_db(transaction=True)
def test_new_accounts_in_two_threads_are_made_once():
    owners = [owner_make() for _ in range(30)]
    gate, errors = threading.Barrier(2), []

    def work(order) -> None:
        try:
            gate.wait(5)
            requests_record([settlement_make(one, 1) for one in order])
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(order,)) for order in (owners, owners[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert set(Account.objects.values_list("balance_nano", flat=True)) == {-2}
    assert_books_balance()


@pytest.mark.django_db(transaction=True)
def test_a_transient_error_leaves_nothing_half_written(monkeypatch):
    owner = owner_make()

    def fail(shares):
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(booking, "rollups_add", fail)
        with pytest.raises(OperationalError):
            requests_record([settlement_make(owner, 4)])
    assert (RelayRequest.objects.count(), LedgerEntry.objects.count(), UsageDaily.objects.count()) == (
        0,
        0,
        0,
    )
    assert not transaction.get_connection().in_atomic_block
