"""Slices: the same sums as roll-ups, made when a day is over, and made again when it changed after that."""

import datetime

import pytest

from billing.models import (
    LedgerEntry,
    SliceKind,
    UsageDaily,
    UsageHourly,
    UsageSliceDaily,
    UsageSliceHourly,
    UsageSliceLate,
    Watermark,
)
from billing.selectors.reports import Grouping, ReportQuery, usage_lines, usage_total
from billing.services import usage_slices
from billing.services.ledger_entries import database_now
from billing.services.requests import requests_record
from billing.services.usage_slices import late_changes_note, usage_slices_build
from tests.factories.billing import open_record_make, owner_make, request_id_make, settlement_make
from tests.factories.usage import DAY, first_events, usage_make

pytestmark = pytest.mark.django_db

NEXT = DAY + datetime.timedelta(days=1)
NARROWINGS = [
    (),
    ("tenant_id",),
    ("api_key_id",),
    ("model",),
    ("channel_id",),
    ("tenant_id", "api_key_id"),
    ("tenant_id", "model"),
    ("model", "channel_id"),
    ("tenant_id", "model", "channel_id"),
]


@pytest.fixture
def soon(monkeypatch):
    """Two days after what was used: else all days until today would be sliced."""
    now = datetime.datetime.combine(NEXT + datetime.timedelta(days=2), datetime.time(9), datetime.UTC)
    monkeypatch.setattr(usage_slices, "database_now", lambda: now)
    return now


@pytest.fixture
def used(soon):
    """Two tenants, three models, a model without a channel; on two days, the second with two hours."""
    one, other = owner_make("one"), owner_make("other")
    for number, (owner, model) in enumerate(((one, "a"), (one, "b"), (other, "a"), (other, ""))):
        for day in (DAY, NEXT):
            usage_make(
                owner,
                day,
                hour=5 + number,
                model=model,
                requests=1 + number,
                charged_nano=10**number,
                operator_cost_nano=number,
                input=7 * number,
                first_event_histogram=first_events(ms_100=number, beyond=1) if number else [],
            )
    return one, other


def late_note(day):
    """As a transaction of now that changes that day."""
    moment = datetime.datetime.combine(day, datetime.time(12), datetime.UTC)
    late_changes_note([moment], now=database_now())


def query(by, **narrowed):
    return ReportQuery(first=DAY, last=NEXT, by=by, **narrowed)


def reports(owner, by):
    """With every narrowing: lines and total."""
    values = {
        "tenant_id": owner.tenant.pk,
        "api_key_id": owner.api_key.pk,
        "channel_id": owner.channel.pk,
        "model": "a",
    }
    found = {}
    for names in NARROWINGS:
        asked = query(by, **{name: values[name] for name in names})
        found[names] = list(usage_lines(asked)), usage_total(asked)
    return found


@pytest.mark.parametrize("by", list(Grouping))
def test_reports_are_the_same_with_slices_and_without(used, by):
    before = reports(used[0], by)
    assert before[()][1].first_events[-1] == 6
    assert usage_slices_build(budget_s=60) > 1
    assert reports(used[0], by) == before


@pytest.mark.parametrize("by", list(Grouping))
def test_reports_by_two_columns_at_most_read_no_rollup_of_a_sliced_day(used, by):
    usage_slices_build(budget_s=60)
    UsageDaily.objects.update(requests=999_999)
    UsageHourly.objects.update(requests=999_999)
    for names in NARROWINGS[:5]:
        lines, total = reports(used[0], by)[names]
        assert total.requests < 30
        assert sum(line.sums.requests for line in lines) == total.requests


def test_a_day_without_slices_is_read_from_rollups(used, monkeypatch):
    usage_slices_build(budget_s=60)
    Watermark.objects.filter(name=usage_slices.WATERMARK).update(
        moment=datetime.datetime.combine(NEXT, datetime.time(), datetime.UTC)
    )
    UsageDaily.objects.filter(day=NEXT, model="b").update(requests=100)
    assert usage_total(query(Grouping.DAY)).requests == 10 + 100 + 1 + 3 + 4
    assert {line.key: line.sums.requests for line in usage_lines(query(Grouping.MODEL))} == {
        "a": 8,
        "b": 102,
        "": 8,
    }


def test_a_day_that_changed_late_is_read_from_rollups_and_sliced_again(used):
    usage_slices_build(budget_s=60)
    UsageDaily.objects.filter(day=DAY, model="b").update(charged_nano=5_000)
    late_note(DAY)
    changed = usage_total(query(Grouping.DAY)).charged_nano
    assert changed == 2 * 1_111 - 10 + 5_000
    assert usage_slices_build(budget_s=60) == 1
    assert not UsageSliceLate.objects.exists()
    assert usage_total(query(Grouping.DAY)).charged_nano == changed
    assert UsageSliceDaily.objects.get(kind=SliceKind.ALL, day=DAY).charged_nano == changed - 1_111
    assert usage_slices_build(budget_s=60) == 0


def test_a_late_change_that_was_not_seen_is_sliced_once_more(used, monkeypatch):
    """A transaction that commits while the day is made leaves its own row."""
    usage_slices_build(budget_s=60)
    late_note(DAY)
    write = usage_slices._day_write

    def write_meanwhile(day):
        write(day)
        late_note(DAY)

    monkeypatch.setattr(usage_slices, "_day_write", write_meanwhile)
    usage_slices._day_build(DAY)
    assert UsageSliceLate.objects.filter(day=DAY).count() == 1


def test_hours_that_are_over_have_slices_today(soon):
    owner, today = owner_make(), soon.date()
    usage_make(owner, today, hour=5, model="a", requests=2, charged_nano=7)
    usage_make(owner, today, hour=8, model="b", requests=3, charged_nano=9)
    asked = ReportQuery(first=today, last=today, by=Grouping.HOUR)
    before = list(usage_lines(asked))
    usage_slices_build(budget_s=60)
    assert {row.hour.hour for row in UsageSliceHourly.objects.filter(kind=SliceKind.ALL)} == {5}
    assert list(usage_lines(asked)) == before
    UsageHourly.objects.filter(model="a").update(requests=50)
    assert [line.sums.requests for line in usage_lines(asked)] == [2, 3]
    UsageHourly.objects.filter(model="b").update(requests=4)
    assert [line.sums.requests for line in usage_lines(asked)] == [2, 4]
    late_changes_note([soon - datetime.timedelta(hours=4)], now=soon)
    assert [line.sums.requests for line in usage_lines(asked)] == [50, 4]
    usage_slices_build(budget_s=60)
    assert not UsageSliceLate.objects.exists()
    assert UsageSliceHourly.objects.get(kind=SliceKind.ALL).requests == 50


def test_today_and_what_may_still_change_is_not_sliced():
    today = database_now().date()
    usage_make(owner_make(), today)
    assert usage_slices_build(budget_s=60) == 0
    assert not UsageSliceDaily.objects.exists()
    assert usage_total(ReportQuery(first=today, last=today, by=Grouping.DAY)).requests == 1


def test_without_usage_there_is_nothing_to_slice():
    assert usage_slices_build(budget_s=60) == 0
    assert not Watermark.objects.exists()


def test_time_up_leaves_the_rest(used):
    assert usage_slices_build(budget_s=0) == 0
    assert usage_total(query(Grouping.DAY)).requests == 20


def test_an_outcome_that_comes_a_day_late_says_so():
    """What was counted on the day of its charge is counted anew there."""
    owner, request_id = owner_make(), request_id_make()
    requests_record([open_record_make(owner, 40, request_id=request_id)])
    then = database_now() - datetime.timedelta(days=3)
    LedgerEntry.objects.update(created_at=then)
    requests_record([settlement_make(owner, 90, request_id=request_id)])
    assert [row.day for row in UsageSliceLate.objects.all()] == [then.date()]


def test_outcomes_in_time_are_not_late():
    owner, request_id = owner_make(), request_id_make()
    requests_record([settlement_make(owner, 1), open_record_make(owner, 40, request_id=request_id)])
    requests_record([settlement_make(owner, 90, request_id=request_id)])
    assert not UsageSliceLate.objects.exists()
