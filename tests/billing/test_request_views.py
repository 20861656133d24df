"""What a tenant sees of a request: its own ones only, and nothing of the operator's."""

import dataclasses
import json

import pytest

from billing.admission import OpenState, RecordState
from billing.outcome_codec import open_record_encode, outcome_encode, settlement_encode
from billing.selectors.requests import open_view, request_view
from billing.services.requests import requests_record
from relay.core.end_reasons import EndReason
from relay.core.usage import TokenUsage
from tests.factories.billing import (
    attempt_make,
    open_record_make,
    outcome_make,
    outcomes_record,
    owner_make,
    request_id_make,
    settlement_make,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return owner_make()


@pytest.fixture
def outcome(owner):
    """Two attempts: the first failed on a channel whose name and host nobody should learn."""
    secret = {
        "channel_id": owner.channel.pk,
        "channel_name": "hidden-channel",
        "upstream_host": "hidden.example",
    }
    first = attempt_make(
        **secret, end_reason=EndReason.CONNECT_FAILED, status=None, usage=None, decision="hidden why"
    )
    second = attempt_make(**secret, number=2, upstream_key_id=987654)
    return outcome_make(owner, attempts=(first, second))


@pytest.fixture(params=["settled", "final"])
def view(request, owner, outcome):
    if request.param == "settled":
        return open_view(owner.tenant.pk, RecordState(OpenState.SETTLED, outcome_encode(outcome)))
    outcomes_record([outcome])
    return request_view(owner.tenant.pk, outcome.request_id)


def test_the_view_tells_the_request(request, view, outcome):
    assert view.state == request.node.callspec.params["view"]
    assert (view.id, view.path, view.model, view.status) == (outcome.request_id, outcome.path, "gpt-4o", 200)
    assert (view.end_reason, view.duration_ms, view.first_event_ms) == ("completed", 1300.0, 25.0)
    assert view.usage == TokenUsage(input=100, cached_input=40, output=20, reasoning=5)
    assert view.usage_source == "reported"
    assert view.cost_nano == 0
    assert view.estimated is False
    assert [(item.number, item.end_reason, item.status) for item in view.attempts] == [
        (1, "connect_failed", None),
        (2, "completed", 200),
    ]
    assert view.attempts[1].header_ms == 20.0


def test_the_view_tells_nothing_of_the_operators(view):
    text = json.dumps(dataclasses.asdict(view), default=str)
    assert "hidden" not in text
    assert "987654" not in text
    assert "req_upstream" not in text
    assert "gpt-4o-2024" not in text


def test_both_views_agree(owner, outcome):
    settled = open_view(owner.tenant.pk, RecordState(OpenState.SETTLED, outcome_encode(outcome)))
    outcomes_record([outcome])
    assert dataclasses.replace(settled, state="final") == request_view(owner.tenant.pk, outcome.request_id)


def test_a_settled_request_tells_what_it_will_cost(owner):
    settlement = settlement_make(owner, 7, usage_source="estimated")
    record = RecordState(OpenState.SETTLED, settlement_encode(settlement))
    settled = open_view(owner.tenant.pk, record)
    assert (settled.state, settled.cost_nano, settled.estimated) == ("settled", 7, True)
    requests_record([settlement])
    assert dataclasses.replace(settled, state="final") == request_view(
        owner.tenant.pk, settlement.outcome.request_id
    )


def test_a_request_that_runs_elsewhere_is_told_to_run(owner):
    record = open_record_make(owner)
    state = RecordState(OpenState.RUNNING, open_record_encode(record), "epoch")
    view = open_view(owner.tenant.pk, state)
    assert dataclasses.asdict(view) == {
        "id": record.draft.request_id,
        "object": "relay.request",
        "state": "running",
    }
    assert open_view(owner_make().tenant.pk, state) is None
    assert open_view(owner.tenant.pk, RecordState(OpenState.RUNNING, b"?", "epoch")) is None


def test_an_abandoned_request_says_so(owner):
    record = open_record_make(owner, 5)
    requests_record([record])
    view = request_view(owner.tenant.pk, record.draft.request_id)
    assert (view.state, view.end_reason, view.cost_nano, view.estimated) == (
        "abandoned",
        "abandoned",
        5,
        True,
    )


def test_another_tenants_request_is_not_there(outcome):
    other = owner_make().tenant
    outcomes_record([outcome])
    assert request_view(other.pk, outcome.request_id) is None
    assert open_view(other.pk, RecordState(OpenState.SETTLED, outcome_encode(outcome))) is None


@pytest.mark.parametrize("request_id", ["", "x", "../../etc/passwd", "0" * 200])
def test_ids_that_are_none(owner, request_id):
    assert request_view(owner.tenant.pk, request_id) is None


def test_unknown_and_unreadable_records(owner):
    assert request_view(owner.tenant.pk, request_id_make()) is None
    assert open_view(owner.tenant.pk, None) is None
    assert open_view(owner.tenant.pk, RecordState(OpenState.SETTLED, b"?")) is None


def test_a_request_without_usage(owner):
    outcome = outcome_make(owner, usage=None, attempts=())
    outcomes_record([outcome])
    view = request_view(owner.tenant.pk, outcome.request_id)
    assert view.usage is None
    assert view.usage_source == "none"
    assert view.attempts == ()


def test_a_view_costs_two_queries(owner, outcome, django_assert_num_queries):
    outcomes_record([outcome])
    with django_assert_num_queries(2):
        request_view(owner.tenant.pk, outcome.request_id)
