"""Odd input to the console is answered, never a crash: NUL (which PostgreSQL cannot hold) and ids that are none."""

import json

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.urls import reverse

from channels_admin.services import channel_update
from tests.factories.channels import a_channel, a_staff_user, a_tenant

pytestmark = pytest.mark.django_db

MODELS = [
    *apps.get_app_config("channels_admin").get_models(),
    *apps.get_app_config("billing").get_models(),
    *apps.get_app_config("auth").get_models(),
    *apps.get_app_config("axes").get_models(),
]
MODELS = [model for model in MODELS if admin.site.is_registered(model)]
CRASHING_UPSTREAM = {"cleanup_expired_attempts"}
"""django-axes 8's own action reads a time that only its login sets."""
ODD_IDS = ["abc", "\0", "-1", "9" * 30, "½"]


@pytest.fixture
def console(client):
    client.raise_request_exception = False
    client.force_login(a_staff_user("superuser"), backend="django.contrib.auth.backends.ModelBackend")
    return client


def url(model, page, *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def each_model(test):
    return pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)(test)


def filters_of(model):
    site = admin.site._registry[model]
    for item in site.list_filter:
        names = [item] if isinstance(item, str) else item if isinstance(item, tuple) else []
        yield from (f"{name}__exact" for name in names if isinstance(name, str))
        if not names:
            yield item.parameter_name
    yield from ("q", "o", "p", "all", "_facets", "_changelist_filters", "id__in", "pk")


@each_model
def test_nul_in_a_filter(console, model):
    for name in filters_of(model):
        for value in ("%00", "a%00b"):
            answer = console.get(f"{url(model, 'changelist')}?{name}={value}")
            assert answer.status_code == 400, (name, value)


@each_model
def test_nul_in_the_name_of_a_filter(console, model):
    assert console.get(f"{url(model, 'changelist')}?a%00b=1").status_code == 400


@each_model
def test_filters_with_odd_values(console, model):
    for name in filters_of(model):
        for value in ("abc", "-1", "9" * 30, "%F0%9F%98%80", "%FF"):
            answer = console.get(f"{url(model, 'changelist')}?{name}={value}")
            assert answer.status_code in {200, 302, 400}, (name, value)


@each_model
@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_pages_of_rows_that_are_none(console, model, page):
    for odd in ODD_IDS:
        answer = console.get(url(model, page, odd))
        assert answer.status_code in {302, 400, 403, 404}, odd


@each_model
def test_actions_on_rows_that_are_none(console, model):
    site = admin.site._registry[model]
    names = [name for name in site.actions or [] if isinstance(name, str) and name not in CRASHING_UPSTREAM]
    for action in [*names, "delete_selected", "nosuch"]:
        for odd in ODD_IDS:
            values = {"action": action, "_selected_action": [odd], "confirmed": "yes"}
            answer = console.post(url(model, "changelist"), values)
            assert answer.status_code in {200, 302, 400, 403}, (action, odd)


@each_model
def test_forms_full_of_odd_values(console, model):
    opened = console.get(url(model, "add"))
    if opened.status_code != 200:
        return
    names = list(opened.context["adminform"].form.fields)
    for odd in ODD_IDS:
        answer = console.post(url(model, "add"), dict.fromkeys(names, odd))
        assert answer.status_code in {200, 302, 400}, odd


def test_nul_in_a_cookie_or_a_path(console):
    """A quoted cookie may hold escapes: the session key would be looked up with them."""
    assert console.get("/admin/%00/").status_code == 400
    console.cookies["sessionid"] = "aaaaaaaaaaaa\0"
    assert console.get("/admin/").status_code == 400


@pytest.mark.parametrize(
    ("written", "is_good"),
    [
        (r'{"a": ["\u0000"]}', False),
        (r'{"a\u0000": 1}', False),
        (r'{"a": "\ud800"}', False),
        (r'{"a": "\\u0000"}', True),
    ],
)
def test_json_that_no_row_can_hold(written, is_good):
    channel = a_channel()
    value = json.loads(written)
    if is_good:
        channel_update(channel_id=channel.pk, parameter_overrides=value)
        channel.refresh_from_db()
        assert channel.parameter_overrides == value
        return
    with pytest.raises(ValidationError):
        channel_update(channel_id=channel.pk, parameter_overrides=value)


def test_nul_at_the_login(client):
    answer = client.post(reverse("admin:login"), {"username": "a\0", "password": "b"})
    assert answer.status_code == 400


def test_a_form_with_an_odd_tenant_tells_so_at_its_field(console):
    answer = console.post("/admin/channels_admin/apikey/add/", {"name": "k", "tenant": "abc"})
    assert answer.status_code == 200
    assert "tenant" in answer.context["adminform"].form.errors


@pytest.mark.parametrize("make", [a_tenant, a_channel])
def test_a_chosen_row_is_still_shown_when_the_form_comes_back(console, make):
    row = make()
    page, field = ("apikey", "tenant") if make is a_tenant else ("upstreamkey", "channel")
    answer = console.post(f"/admin/channels_admin/{page}/add/", {field: row.pk})
    assert answer.status_code == 200
    assert f'<option value="{row.pk}" selected' in answer.content.decode()
