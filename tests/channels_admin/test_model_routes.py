"""Model routes: services, the snapshot's share, and the console."""

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from channels_admin.models import ModelRoute
from channels_admin.selectors import config_version
from channels_admin.services import (
    model_route_close,
    model_route_set,
    model_route_update,
    stream_policy_update,
)
from channels_admin.snapshots import load_section
from relay.core import types
from tests.factories.channels import a_channel, a_policy, a_staff_user

pytestmark = pytest.mark.django_db


def test_each_change_takes_one_version_and_stamps_the_row():
    calls = [
        lambda: model_route_set(model="gpt-*", is_artefact=True),
        lambda: model_route_set(model="gpt-*", hedge_after_ms=60),
        lambda: model_route_update(route_id=ModelRoute.objects.get().pk, group="vip"),
        lambda: model_route_close(route_id=ModelRoute.objects.get().pk),
    ]
    for call in calls:
        before = config_version()
        row = call()
        row.refresh_from_db()
        assert (row.version, config_version()) == (before + 1, before + 1)
    assert ModelRoute.objects.get().is_artefact, "fields that are not named stay"


def test_a_route_that_was_closed_is_another_row_when_it_is_set_again():
    closed = model_route_close(route_id=model_route_set(model="m").pk)
    again = model_route_set(model="m")
    assert again.pk != closed.pk
    with pytest.raises(ModelRoute.DoesNotExist):
        model_route_update(route_id=closed.pk, hedge_after_ms=1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": ""}, "model"),
        ({"model": "m", "fallback_models": ["gpt-*"]}, "fallback_models"),
        ({"model": "m", "fallback_models": "gpt"}, "fallback_models"),
        ({"model": "m", "hedge_after_ms": 60_001}, "hedge_after_ms"),
        ({"model": "m", "group": "no slug"}, "group"),
    ],
)
def test_what_is_refused_and_at_which_field(fields, field):
    with pytest.raises(ValidationError) as caught:
        model_route_set(**fields)
    assert list(caught.value.message_dict) == [field]
    assert not ModelRoute.objects.exists()


def test_two_open_routes_for_one_model_and_group_are_refused():
    model_route_set(model="m")
    other = model_route_set(model="n")
    with pytest.raises(ValidationError, match="This route exists"):
        model_route_update(route_id=other.pk, model="m")


def test_every_field_arrives_in_the_snapshot():
    policy = a_policy(name="slow", total_timeout_seconds=6)
    row = model_route_set(
        model="gpt-*",
        group="vip",
        is_artefact=True,
        hedge_after_ms=800,
        degrade_to_non_stream=True,
        fallback_models=["a", "b"],
        policy=policy,
    )
    section = load_section(None)
    assert section.routes.find("vip", "gpt-4o") == types.ModelRoute(
        id=row.pk,
        model="gpt-*",
        group="vip",
        is_artefact=True,
        hedge_after_s=0.8,
        degrade_to_non_stream=True,
        fallback_models=("a", "b"),
        policy=section.policies[policy.pk],
    )
    assert section.routes.find("default", "gpt-4o") is None


def test_a_change_of_something_else_reuses_the_index():
    model_route_set(model="m")
    before = load_section(None)
    a_channel()
    after = load_section(before)
    assert after.routes is before.routes


def test_a_changed_policy_reaches_its_route_and_a_closed_route_goes():
    policy = a_policy(total_timeout_seconds=10)
    row = model_route_set(model="m", policy=policy)
    kept = model_route_set(model="n")
    before = load_section(None)
    stream_policy_update(policy_id=policy.pk, total_timeout_seconds=20)
    changed = load_section(before)
    assert changed.routes.find("g", "m").policy.total_timeout_s == 20
    assert changed.model_routes[kept.pk] is before.model_routes[kept.pk]
    model_route_close(route_id=row.pk)
    assert load_section(changed).routes.find("g", "m") is None


@pytest.fixture
def operator(client):
    client.force_login(a_staff_user("operator"), backend="django.contrib.auth.backends.ModelBackend")
    return client


FORM = {"model": "gpt-*", "group": "", "fallback_models": "a\nb", "hedge_after_ms": "800", "policy": ""}


def test_the_console_sets_changes_and_closes_a_route(operator):
    operator.post(reverse("admin:channels_admin_modelroute_add"), FORM)
    row = ModelRoute.objects.get()
    assert (row.model, row.fallback_models, row.hedge_after_ms) == ("gpt-*", ["a", "b"], 800)
    page = reverse("admin:channels_admin_modelroute_change", args=[row.pk])
    operator.post(page, {**FORM, "is_artefact": "on"})
    row.refresh_from_db()
    assert row.is_artefact
    assert row.version == config_version()
    listed = reverse("admin:channels_admin_modelroute_changelist")
    action = {"action": "close_model_routes", "_selected_action": [row.pk]}
    asked = operator.post(listed, action)
    assert "1 model routes hold no more" in asked.content.decode()
    row.refresh_from_db()
    assert not row.is_closed
    operator.post(listed, {**action, "confirmed": "yes"})
    row.refresh_from_db()
    assert row.is_closed
    assert operator.get(page).status_code == 302, "a closed route is no longer there"


@pytest.mark.parametrize("group", ["", "vip"])
def test_adding_what_is_there_is_told_and_overwrites_nothing(operator, group):
    row = model_route_set(model="gpt-*", group=group, hedge_after_ms=5)
    answer = operator.post(reverse("admin:channels_admin_modelroute_add"), FORM | {"group": group})
    assert answer.status_code == 200
    assert answer.context["adminform"].form.non_field_errors() == ["This route exists."]
    row.refresh_from_db()
    assert (row.hedge_after_ms, row.fallback_models) == (5, [])
    model_route_close(route_id=row.pk)
    operator.post(reverse("admin:channels_admin_modelroute_add"), FORM | {"group": group})
    assert ModelRoute.objects.get(is_closed=False).hedge_after_ms == 800


def test_a_route_moved_onto_another_is_told_in_the_form(operator):
    model_route_set(model="gpt-*")
    row = model_route_set(model="other")
    answer = operator.post(reverse("admin:channels_admin_modelroute_change", args=[row.pk]), FORM)
    assert answer.status_code == 200
    assert answer.context["adminform"].form.non_field_errors() == ["This route exists."]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""),
        ("fallback_models", "gpt-*"),
        ("hedge_after_ms", "-1"),
        ("hedge_after_ms", "nan"),
    ],
)
def test_bad_input_is_told_at_the_field(operator, field, value):
    response = operator.post(reverse("admin:channels_admin_modelroute_add"), {**FORM, field: value})
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert not ModelRoute.objects.exists()
