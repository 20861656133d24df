"""What a usage report adds up, and what it does not read."""

import datetime
import math

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.core.histograms import percentile_bound
from billing.models import RelayRequest, UsageDaily, UsageHourly
from billing.selectors.reports import (
    BadRange,
    Grouping,
    ReportQuery,
    UsageSums,
    usage_lines,
    usage_report,
    usage_total,
)
from tests.factories.billing import outcome_make, outcomes_record, owner_make
from tests.factories.usage import DAY, first_events, usage_make

pytestmark = pytest.mark.django_db

WEEK = datetime.timedelta(days=7)


def query(by=Grouping.DAY, *, first=DAY, last=DAY, **narrowed):
    return ReportQuery(first=first, last=last, by=by, **narrowed)


def lines(by, **options):
    return {line.key: line.sums for line in usage_lines(query(by, **options))}


@pytest.fixture
def owners():
    return owner_make("first"), owner_make("second")


@pytest.mark.parametrize("by", list(Grouping))
def test_every_grouping_has_the_same_total(owners, by):
    one, other = owners
    usage_make(
        one, requests=3, successes=2, charged_nano=70, operator_cost_nano=20, input=100, cached_input=40
    )
    usage_make(one, hour=13, model="mini", requests=4, successes=4, charged_nano=5, output=9, reasoning=2)
    usage_make(other, requests=5, successes=1, charged_nano=25, images=2, estimated=1, possible_duplicates=1)
    expected = UsageSums(
        requests=12, successes=7, charged_nano=100, operator_cost_nano=20, input=100, cached_input=40,
        output=9, reasoning=2, images=2, estimated=1, possible_duplicates=1,
        first_events=tuple(first_events()),
    )  # fmt: skip
    assert usage_total(query(by)) == expected
    parts = list(usage_lines(query(by)))
    assert sum(part.sums.requests for part in parts) == 12
    assert sum(part.sums.charged_nano for part in parts) == 100
    assert sum(part.sums.margin_nano for part in parts) == 80


def test_groups_are_what_they_say(owners):
    one, other = owners
    usage_make(one, requests=3, charged_nano=1)
    usage_make(one, DAY + WEEK, model="mini", requests=4, charged_nano=9)
    usage_make(other, requests=5, charged_nano=5)
    whole = {"last": DAY + WEEK}

    def counts(by):
        return {key: sums.requests for key, sums in lines(by, **whole).items()}

    assert counts(Grouping.DAY) == {DAY: 8, DAY + WEEK: 4}
    assert counts(Grouping.TENANT) == {one.tenant.pk: 7, other.tenant.pk: 5}
    assert counts(Grouping.API_KEY) == {one.api_key.pk: 7, other.api_key.pk: 5}
    assert counts(Grouping.CHANNEL) == {one.channel.pk: 7, other.channel.pk: 5}
    assert counts(Grouping.MODEL) == {"gpt-4o": 8, "mini": 4}
    noon = datetime.datetime.combine(DAY, datetime.time(12), datetime.UTC)
    assert counts(Grouping.HOUR) == {noon: 8, noon + WEEK: 4}


def test_who_paid_most_comes_first_and_days_come_in_order(owners):
    one, other = owners
    usage_make(one, DAY + WEEK, charged_nano=1)
    usage_make(other, charged_nano=2)
    assert list(lines(Grouping.TENANT, last=DAY + WEEK)) == [other.tenant.pk, one.tenant.pk]
    assert list(lines(Grouping.DAY, last=DAY + WEEK)) == [DAY, DAY + WEEK]
    first = usage_report(query(Grouping.TENANT, last=DAY + WEEK), limit=1).lines
    assert [line.key for line in first] == [other.tenant.pk]


@pytest.mark.parametrize("by", [Grouping.DAY, Grouping.HOUR])
def test_both_ends_of_the_range_count_and_nothing_beyond(owners, by):
    for offset in (-1, 0, 1, 2):
        for hour in (0, 23):
            usage_make(owners[0], DAY + datetime.timedelta(days=offset), hour=hour, model=f"m{hour}")
    two_days = query(by, last=DAY + datetime.timedelta(days=1))
    assert usage_total(two_days).requests == 4


@pytest.mark.parametrize("field", ["tenant_id", "api_key_id", "channel_id", "model"])
def test_a_report_is_narrowed(owners, field):
    one, other = owners
    usage_make(one, requests=3, model="mine")
    usage_make(other, requests=5, model="theirs")
    row = UsageDaily.objects.get(tenant_id=one.tenant.pk)
    assert usage_total(query(**{field: getattr(row, field)})).requests == 3
    assert usage_total(query(Grouping.HOUR, **{field: getattr(row, field)})).requests == 3


def test_histograms_are_added_bucket_by_bucket(owners):
    one, other = owners
    usage_make(one, first_event_histogram=first_events(ms_100=9, ms_500=1))
    usage_make(one, model="mini", first_event_histogram=[])  # no event ever came
    usage_make(other, first_event_histogram=first_events(ms_500=8, beyond=2))
    sums = usage_total(query())
    assert sums.first_events == tuple(first_events(ms_100=9, ms_500=9, beyond=2))
    assert sums.first_event_ms(0.5) == 500
    assert sums.first_event_ms(0.45) == 100
    assert sums.first_event_ms(0.95) == math.inf
    by_tenant = lines(Grouping.TENANT)
    assert by_tenant[one.tenant.pk].first_event_ms(0.9) == 100


def test_nothing_is_a_report_too():
    assert list(usage_lines(query())) == []
    sums = usage_total(query())
    assert (sums.requests, sums.success_share, sums.estimated_share, sums.first_event_ms(0.5)) == (
        0, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "share", "bound"),
    [
        ([0, 0, 0], 0.5, None),
        ([1, 0, 0], 0.5, 10),
        ([1, 1, 0], 0.5, 10),
        ([1, 2, 0], 0.5, 20),
        ([0, 0, 1], 0.5, math.inf),
        ([95, 5, 0], 0.95, 10),
        ([94, 6, 0], 0.95, 20),
        ([1, 1, 0], 1.0, 20),
    ],
)
def test_percentiles(counts, share, bound):
    assert percentile_bound(counts, (10, 20), share) == bound


@pytest.mark.parametrize(
    ("by", "days", "is_fine"),
    [
        (Grouping.DAY, 0, False),
        (Grouping.DAY, 1, True),
        (Grouping.TENANT, 366, True),
        (Grouping.TENANT, 367, False),
        (Grouping.HOUR, 31, True),
        (Grouping.HOUR, 32, False),
    ],
)
def test_ranges_have_bounds(by, days, is_fine):
    last = DAY + datetime.timedelta(days=days - 1)
    if is_fine:
        assert query(by, last=last).last == last
    else:
        with pytest.raises(BadRange):
            query(by, last=last)


def test_reports_read_no_requests_and_one_statement_each(owners):
    usage_make(owners[0])
    with CaptureQueriesContext(connection) as captured:
        usage_total(query())
        list(usage_lines(query(Grouping.MODEL)))
    statements = [one["sql"] for one in captured.captured_queries if "SELECT" in one["sql"]]
    assert len([statement for statement in statements if "SUM(" in statement]) == 2
    assert len(statements) <= 6  # and which days have slices, asked each time
    assert all(RelayRequest._meta.db_table not in statement for statement in statements)


def test_a_recorded_request_is_in_todays_report(owners):
    """The worker's roll-ups and the report mean the same by each name."""
    owner = owners[0]
    outcomes_record([outcome_make(owner)])
    day = UsageDaily.objects.get().day
    assert UsageHourly.objects.count() == 1
    for by in Grouping:
        sums = usage_total(ReportQuery(first=day, last=day, by=by, tenant_id=owner.tenant.pk))
        assert (sums.requests, sums.successes, sums.input, sums.cached_input) == (1, 1, 100, 40)
        assert sums.first_event_ms(0.5) == 50
