"""`apply`: the section `model_routes`."""

import pytest

from channels_admin.models import ModelRoute
from gateway.provisioning import ProvisioningRefused
from gateway.provisioning.findings import Verb

pytestmark = pytest.mark.django_db

ROUTES = """
stream_policies: [{name: patient}]
model_routes:
  - {model: "gpt-*", fallback_models: [a, b], hedge_after_ms: 800, policy: patient}
  - {model: "gpt-*", group: vip, is_artefact: true, degrade_to_non_stream: true}
"""


def verbs(report):
    return {change.what: change.verb for change in report.changes if change.what.startswith("model route")}


def test_routes_are_made_once_and_found_again(apply):
    assert verbs(apply(ROUTES)) == {
        "model route gpt-*": Verb.CREATE,
        "model route gpt-* for group vip": Verb.CREATE,
    }
    everyone, vip = ModelRoute.objects.order_by("group")
    assert (everyone.fallback_models, everyone.hedge_after_ms, everyone.policy.name) == (
        ["a", "b"],
        800,
        "patient",
    )
    assert (vip.group, vip.is_artefact, vip.degrade_to_non_stream) == ("vip", True, True)
    again = apply(ROUTES)
    assert not again.has_changes
    assert set(verbs(again).values()) == {Verb.UNCHANGED}


def test_a_field_is_changed_and_the_others_stay(apply):
    apply(ROUTES)
    report = apply('model_routes: [{model: "gpt-*", policy: null}]')
    assert verbs(report) == {"model route gpt-*": Verb.CHANGE}
    row = ModelRoute.objects.get(group="")
    assert (row.policy, row.hedge_after_ms) == (None, 800)


def test_a_route_is_closed_and_a_closed_one_stays_unchanged(apply):
    apply(ROUTES)
    closing = 'model_routes: [{model: "gpt-*", status: closed}]'
    assert apply(closing).has_changes
    assert ModelRoute.objects.filter(is_closed=False).get().group == "vip"
    assert not apply(closing).has_changes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model_routes: [{model: m, policy: nosuch}]", "model_routes[0].policy: no such stream policy"),
        (
            "model_routes: [{model: m, fallback_models: ['a*']}]",
            "model_routes[0].fallback_models: Names are expected",
        ),
        ("model_routes: [{model: m, hedge_after_ms: 99999}]", "model_routes[0].hedge_after_ms: "),
        ("model_routes: [{group: g}]", "model_routes[0].model: is missing"),
        ("model_routes: [{model: m, hedge: 1}]", "model_routes[0].hedge: unknown field"),
        (
            "model_routes: [{model: m}, {model: m, group: ''}]",
            "model_routes[1].model: the same as model_routes[0]",
        ),
    ],
)
def test_what_is_refused_and_where(apply, text, problem):
    with pytest.raises(ProvisioningRefused) as caught:
        apply(text)
    assert any(str(one).startswith(problem) for one in caught.value.problems), caught.value
    assert not ModelRoute.objects.exists()
