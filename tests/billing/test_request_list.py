"""The request list's filters: each by itself, together, and what they look at at most."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.admin import request_list
from billing.models import LedgerEntry, RelayRequest
from billing.services.requests import requests_record
from relay.core.end_reasons import EndReason
from tests.billing.test_money_admin import enter
from tests.factories.billing import attempt_make, owner_make, settlement_make

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:No directory at:UserWarning"),
]
PAGE = "/admin/billing/relayrequest/"


@pytest.fixture
def chief(client):
    enter(client, "superuser")
    return client


@pytest.fixture
def two():
    """Of each owner: a success of model a, a failure of model b, in that order."""
    owners = owner_make("north"), owner_make("south")
    for owner in owners:
        for model, reason in (("a", EndReason.COMPLETED), ("b", EndReason.IDLE_TIMEOUT)):
            upstream = attempt_make(
                channel_id=owner.channel.pk, upstream_request_id=f"up-{owner.tenant}-{model}"
            )
            requests_record(
                [settlement_make(owner, 1, model_asked=model, end_reason=reason, attempts=(upstream,))]
            )
    return owners


def found(client, **asked):
    rows = client.get(PAGE, asked).context["cl"].result_list
    return {(row.tenant.name, row.model_asked) for row in rows}


def test_each_filter_by_name_and_together(chief, two):
    north, south = two
    assert found(chief, tenant="north") == {("north", "a"), ("north", "b")}
    assert found(chief, tenant="nor") == set()
    assert found(chief, model="a") == {("north", "a"), ("south", "a")}
    assert found(chief, api_key=str(south.api_key.pk)) == {("south", "a"), ("south", "b")}
    assert found(chief, api_key=f"{north.api_key.prefix}…") == {("north", "a"), ("north", "b")}
    assert found(chief, api_key="sk-nobody") == set()
    assert found(chief, api_key="9" * 30) == set()
    assert found(chief, channel=north.channel.name) == {("north", "a"), ("north", "b")}
    assert found(chief, channel="nowhere") == set()
    assert found(chief, q="up-south-b") == {("south", "b")}
    assert found(chief, tenant="north", failed="yes") == {("north", "b")}
    assert found(chief, tenant="north", model="a", failed="no") == {("north", "a")}
    assert found(chief, channel=south.channel.name, end_reason="idle_timeout") == {("south", "b")}
    assert found(chief, channel=south.channel.name, tenant="north") == set()
    assert found(chief, q="south", failed="yes") == {("south", "b")}


def test_before_goes_back_and_started_keeps_to_the_newest(chief, two):
    last = RelayRequest.objects.order_by("-pk").first()
    assert len(found(chief)) == 4
    assert found(chief, before=str(last.pk)) == found(chief) - {("south", "b")}
    assert found(chief, before="2020-01-01") == set()
    assert found(chief, before="1850-01-01") == set()
    assert len(found(chief, before="2999-01-01 12:00")) == 4
    assert found(chief, before="yesterday") == set()
    assert len(found(chief, started="1")) == 4
    assert len(found(chief, started="soon")) == 4


def test_filters_together_look_no_further_than_the_horizon(chief, two, monkeypatch):
    """One row of each filter here: north's newest is its failure. `before` goes further back."""
    monkeypatch.setattr(request_list, "LOOKED_AT_MAX", 1)
    newest = str(RelayRequest.objects.get(tenant=two[0].tenant, model_asked="b").pk)
    assert found(chief, tenant="north", failed="yes") == {("north", "b")}
    assert found(chief, tenant="north", model="a") == set()
    assert found(chief, tenant="north", model="a", before=newest) == {("north", "a")}
    assert found(chief, channel=two[0].channel.name) == {("north", "b")}
    assert found(chief, channel=two[0].channel.name, before=newest) == {("north", "a")}


@pytest.mark.parametrize(
    "common",
    [{"failed": "no"}, {"stream_asked__exact": "1"}, {"estimated__exact": "0"}, {"state__exact": "final"}],
)
def test_a_filter_without_an_index_looks_at_the_newest_only(chief, two, monkeypatch, common):
    everything = {("north", "a"), ("south", "a"), ("north", "b"), ("south", "b")}
    wanted = {row for row in everything if row[1] == "a"} if "failed" in common else everything
    assert found(chief, **common) == wanted
    monkeypatch.setattr(request_list, "LOOKED_AT_MAX", 2)
    assert found(chief, **common) == {row for row in wanted if row[0] == "south"}
    before = str(RelayRequest.objects.get(tenant=two[1].tenant, model_asked="a").pk)
    assert found(chief, **common, before=before) == {row for row in wanted if row[0] == "north"}


def test_a_filter_without_an_index_keeps_to_the_horizon_of_the_other(chief, two, monkeypatch):
    monkeypatch.setattr(request_list, "LOOKED_AT_MAX", 1)
    assert found(chief, tenant="north", failed="no") == set()
    monkeypatch.setattr(request_list, "LOOKED_AT_MAX", 2)
    assert found(chief, tenant="north", failed="no") == {("north", "a")}


def test_what_is_searched_by_its_id_is_found_behind_every_horizon(chief, two, monkeypatch):
    monkeypatch.setattr(request_list, "LOOKED_AT_MAX", 1)
    oldest = str(RelayRequest.objects.order_by("pk").first().pk)
    for term in (oldest, "up-north-a"):
        assert found(chief, q=term, failed="no") == {("north", "a")}
        assert found(chief, q=term, tenant="north", state__exact="final") == {("north", "a")}


def test_each_name_is_looked_up_once(chief, two):
    with CaptureQueriesContext(connection) as captured:
        found(chief, tenant="north", model="a", api_key=f"{two[0].api_key.prefix}…")
    for table in ("tenant", "apikey"):
        asked = [
            one["sql"] for one in captured.captured_queries if f'FROM "channels_admin_{table}"' in one["sql"]
        ]
        assert len(asked) == 1, asked


def test_one_filter_alone_asks_for_no_horizon(chief, two):
    with CaptureQueriesContext(connection) as captured:
        found(chief, tenant="north")
    assert not [one for one in captured.captured_queries if "OFFSET 4999" in one["sql"]]


def test_ledger_search_finds_by_request_source_and_tenant(chief, two):
    page = "/admin/billing/ledgerentry/"
    charge = LedgerEntry.objects.order_by("id").first()
    for term, count in (
        (str(charge.request_id), 1), (charge.source, 1), (charge.source[:-1], 0), ("north", 2), ("nor", 0),
    ):  # fmt: skip
        assert len(chief.get(page, {"q": term}).context["cl"].result_list) == count
    account = chief.get(page, {"account__id__exact": str(charge.account_id)}).context["cl"].result_list
    assert [entry.account_seq for entry in account] == [2, 1]
