"""Requests whose process died, and outcomes that come after all."""

import datetime

import pytest

from billing.admission.open_record import AccountState
from billing.models import (
    Account,
    Attempt,
    EntryKind,
    LedgerEntry,
    RelayRequest,
    UsageDaily,
    UsageRecord,
)
from billing.services import ledger_entries
from billing.services.requests import requests_record
from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage
from tests.billing.books import assert_books_balance
from tests.factories.billing import (
    attempt_make,
    open_record_make,
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


def test_an_abandoned_request_is_charged_for_its_last_checkpoint(owner):
    record = open_record_make(
        owner,
        40,
        price_id=3,
        attempts=(
            attempt_make(number=1, channel_name="north", end_reason=EndReason.HEADER_TIMEOUT),
            attempt_make(number=2, channel_name="north", end_reason=EndReason.ABANDONED),
        ),
    )
    recording = requests_record([record])
    assert recording.accounts == (AccountState(owner.tenant.pk, -40, 1),)
    row = RelayRequest.objects.get()
    assert (row.state, row.end_reason, row.cost_nano, row.estimated) == ("abandoned", "abandoned", 40, True)
    attempts = list(Attempt.objects.order_by("number"))
    assert [(one.number, one.end_reason, one.channel_name) for one in attempts] == [
        (1, "header_timeout", "north"),
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
