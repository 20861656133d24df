"""The page of usage reports and its CSV: what they show, to whom, and what they refuse."""

import csv
import io
import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.admin import usage_reports
from billing.admin.usage_csv import report_csv, safe_text
from billing.models import RelayRequest
from billing.selectors.reports import Grouping, ReportQuery
from channels_admin.roles import Role
from tests.factories.billing import owner_make
from tests.factories.channels import a_staff_user
from tests.factories.usage import DAY, first_events, usage_make

pytestmark = pytest.mark.django_db

PAGE = "/admin/billing/usagedaily/"
CSV = "/admin/billing/usagedaily/csv/"
RANGE = {"first": DAY.isoformat(), "last": DAY.isoformat()}


@pytest.fixture(autouse=True)
def pages_only(settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "whitenoise" not in name]


def signed_in(client, role):
    client.force_login(a_staff_user(role), backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def viewer(client):
    return signed_in(client, "viewer")


@pytest.fixture
def owner():
    owner = owner_make("acme")
    usage_make(
        owner,
        requests=1234,
        successes=1111,
        incomplete=7,
        estimated=123,
        possible_duplicates=3,
        input=5_000_000,
        cached_input=40,
        output=600,
        reasoning=20,
        images=2,
        charged_nano=12_345_000_000,
        operator_cost_nano=13_000_000_000,
        first_event_histogram=first_events(ms_300=90, ms_5000=10),
    )
    return owner


def rows(response):
    return {row.name: {cell.title: cell.text for cell in row.cells} for row in response.context["rows"]}


def table(query):
    text = "".join(report_csv(query))
    assert text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(text[1:])))


def test_a_line_has_every_figure(viewer, owner):
    page = viewer.get(PAGE, {**RANGE, "by": "tenant"})
    assert rows(page) == {
        "acme": {
            "Requests": "1\u202f234",
            "Success": "90.0 %",
            "Input tokens": "5\u202f000\u202f000",
            "Output tokens": "600",
            "Charged (USD)": "12.345",
            "Operator cost (USD)": "13.00",
            "Margin (USD)": "-0.655",
            "Estimated": "10.0 %",
            "Possible duplicates": "3",
            "First event p50": "≤ 300 ms",
            "First event p95": "≤ 5 s",
        }
    }
    assert "7 broke off" in page.content.decode()


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("day", "2026-03-14"),
        ("hour", "2026-03-14 12:00"),
        ("tenant", "acme"),
        ("api_key", "acme · {key}"),
        ("model", "gpt-4o"),
        ("channel", "{channel}"),
    ],
)
def test_each_grouping_names_its_lines(viewer, owner, by, name):
    page = viewer.get(PAGE, {**RANGE, "by": by})
    assert list(rows(page)) == [name.format(key=owner.api_key.name, channel=owner.channel.name)]


def test_a_line_leads_to_its_own_report_and_back(viewer, owner):
    usage_make(owner_make("other"), requests=9)
    page = viewer.get(PAGE, {**RANGE, "by": "tenant"})
    link = next(row.url for row in page.context["rows"] if row.name == "acme")
    narrowed = viewer.get(link)
    assert list(rows(narrowed)) == ["2026-03-14"]
    assert rows(narrowed)["2026-03-14"]["Requests"] == "1\u202f234"
    (chip,) = narrowed.context["chips"]
    assert chip.label == "acme"
    assert rows(viewer.get(chip.url))["2026-03-14"]["Requests"] == "1\u202f243"


def test_models_that_look_like_markup_are_text(viewer, owner):
    usage_make(owner, model='"><script>alert(1)</script>')
    page = viewer.get(PAGE, {**RANGE, "by": "model"}).content.decode()
    assert "<script>alert(1)" not in page


def test_charts_fill_days_without_requests(viewer, owner):
    page = viewer.get(PAGE, {"first": "2026-03-12", "last": "2026-03-15", "by": "day"})
    requests, money = (json.loads(chart.data) for chart in page.context["charts"])
    assert requests["labels"] == ["2026-03-12", "2026-03-13", "2026-03-14", "2026-03-15"]
    assert [series["data"] for series in requests["datasets"]] == [[0, 0, 1111, 0], [0, 0, 123, 0]]
    assert money["datasets"][0]["data"][2] == pytest.approx(12.345)


def test_no_usage_is_said(viewer):
    page = viewer.get(PAGE, RANGE)
    assert page.status_code == 200
    assert "Nothing was used in this range." in page.content.decode()


def test_without_a_question_the_last_thirty_days_are_shown(viewer):
    page = viewer.get(PAGE)
    query = page.context["form"].query
    assert (query.last - query.first).days == 29
    assert query.by is Grouping.DAY


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"first": "yesterday"}, "first"),
        ({"first": "2026-03-15", "last": "2026-03-14"}, "last"),
        ({"first": "2020-01-01", "last": "2026-03-14"}, "last"),
        ({"first": "2026-01-01", "last": "2026-03-14", "by": "hour"}, "last"),
        ({"by": "colour"}, "by"),
        ({"tenant_id": "x"}, "tenant_id"),
        ({"tenant_id": "9" * 30}, "tenant_id"),
        ({"channel_id": "-1"}, "channel_id"),
        ({"model": "m" * 201}, "model"),
        ({"first": "0001-01-01", "last": "0001-01-01"}, "last"),
        ({"first": "9999-12-31", "last": "9999-12-31", "by": "hour"}, "last"),
    ],
)
def test_bad_input_is_told_at_its_field(viewer, owner, asked, field):
    asked = {**RANGE, **asked}
    page = viewer.get(PAGE, asked)
    assert page.status_code == 200
    assert list(page.context["form"].errors) == [field]
    assert "rows" not in page.context
    refused = viewer.get(CSV, asked)
    assert refused.status_code == 400
    assert refused.content


@pytest.mark.parametrize("address", [PAGE, CSV])
@pytest.mark.parametrize("role", [None, *(role.value for role in Role), "superuser"])
def test_only_who_may_see_reports_sees_them(client, role, address):
    expected = 403 if role is None else 200
    assert signed_in(client, role).get(address, RANGE).status_code == expected


@pytest.mark.parametrize("address", [PAGE, CSV])
def test_strangers_are_sent_to_the_login(client, address):
    assert client.get(address).url.startswith(reverse("admin:login"))


def test_a_single_row_has_no_page(client, owner):
    chief = signed_in(client, "superuser")
    from billing.models import UsageDaily  # noqa: PLC0415  beside its only use

    pk = UsageDaily.objects.get().pk
    assert chief.get(f"{PAGE}{pk}/change/").status_code == 403
    assert chief.post(f"{PAGE}{pk}/change/", {"requests": 1}).status_code == 403
    assert chief.post(f"{PAGE}{pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_page_costs_the_same_for_many_lines(viewer, owner):
    def statements():
        with CaptureQueriesContext(connection) as captured:
            assert viewer.get(PAGE, {**RANGE, "by": "api_key"}).status_code == 200
        return [one["sql"] for one in captured.captured_queries]

    few = statements()
    for _ in range(20):
        usage_make(owner_make())
    many = statements()
    assert len(many) == len(few)
    assert not any(RelayRequest._meta.db_table in one for one in many)


def test_a_long_list_is_cut_and_says_so(viewer, owner, monkeypatch):
    monkeypatch.setattr(usage_reports, "LINES_SHOWN", 2)
    for number in range(3):
        usage_make(owner, model=f"m{number}")
    page = viewer.get(PAGE, {**RANGE, "by": "model"})
    assert len(page.context["rows"]) == 2
    assert "Only the first lines are shown" in page.content.decode()
    assert page.context["total"][0].text == "1\u202f237", "the total counts every line"


def test_csv_has_the_whole_report(owner):
    query = ReportQuery(first=DAY, last=DAY, by=Grouping.TENANT)
    (line,) = table(query)
    assert line == {
        "tenant_id": str(owner.tenant.pk), "tenant": "acme", "requests": "1234", "successes": "1111",
        "success_share": "0.9003", "incomplete": "7", "estimated": "123", "estimated_share": "0.0997",
        "possible_duplicates": "3", "input_tokens": "5000000", "cached_input_tokens": "40",
        "cache_write_tokens": "0", "output_tokens": "600", "reasoning_tokens": "20", "images": "2",
        "charged_usd": "12.345000000", "operator_cost_usd": "13.000000000", "margin_usd": "-0.655000000",
        "first_event_p50_ms_at_most": "300", "first_event_p95_ms_at_most": "5000",
    }  # fmt: skip


def test_csv_has_every_line_whatever_the_batch(owner, monkeypatch):
    monkeypatch.setattr("billing.admin.usage_csv._LINES_AT_ONCE", 3)
    models = {f"m{number}" for number in range(10)}
    for model in models:
        usage_make(owner, model=model)
    query = ReportQuery(first=DAY, last=DAY, by=Grouping.MODEL)
    assert {line["model"] for line in table(query)} == models | {"gpt-4o"}
    assert len(list(report_csv(query))) == 5, "the heading and four pieces: it is not held whole"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("  =1", "'  =1"),
        ("gpt-4", "gpt-4"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_text_is_never_a_formula(owner, text, written):
    assert safe_text(text) == written
    usage_make(owner, model=text, requests=2)
    lines = table(ReportQuery(first=DAY, last=DAY, by=Grouping.MODEL))
    assert written in {line["model"] for line in lines}


def test_names_are_no_formulas_either():
    usage_make(owner_make('=HYPERLINK("http://evil","x")'))
    (line,) = table(ReportQuery(first=DAY, last=DAY, by=Grouping.TENANT))
    assert line["tenant"].startswith("'=")
