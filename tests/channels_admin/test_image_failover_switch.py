"""The image failover switch: what it saves, who may press it, what is logged. The browser tests drive the dialog."""

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ValidationError
from django.urls import reverse

from channels_admin import services
from channels_admin.flags import IMAGE_FAILOVER_FLAGS
from channels_admin.models import RuntimeFlag
from channels_admin.roles import Role
from channels_admin.selectors import config_version
from tests.factories.channels import a_staff_user

pytestmark = pytest.mark.django_db

URL = "/admin/channels_admin/runtimeflag/image-failover/"
LIST = "/admin/channels_admin/runtimeflag/"
SWITCH, AMBIGUOUS, UNCERTAIN = IMAGE_FAILOVER_FLAGS


def stored():
    rows = dict(RuntimeFlag.objects.values_list("name", "value"))
    return tuple(rows[name] for name in IMAGE_FAILOVER_FLAGS)


def signed_in(client, role):
    client.force_login(a_staff_user(role), backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def operator(client):
    return signed_in(client, "operator")


def words(client):
    (card,) = [section.failover for section in client.get(LIST).context["sections"] if section.failover]
    return card


@pytest.mark.parametrize(
    ("form", "saved"),
    [
        ({"do": "on"}, (True, False, False)),
        ({"do": "on", "ambiguous": "yes"}, (True, True, False)),
        ({"do": "on", "uncertain": "yes"}, (True, False, True)),
        ({"do": "on", "ambiguous": "yes", "uncertain": "yes"}, (True, True, True)),
        ({"do": "off"}, (False, False, False)),
        ({"do": "off", "ambiguous": "yes", "uncertain": "yes"}, (False, False, False)),
        ({"do": "clear"}, (None, None, None)),
    ],
)
def test_each_button_saves_all_three(operator, form, saved):
    services.image_failover_set(enabled=True, ambiguous=True, changed_by="ada")
    assert operator.post(URL, form).status_code == 302
    assert stored() == saved


@pytest.mark.parametrize("form", [{}, {"do": "sideways"}, {"do": ["on", "off"]}])
def test_a_post_that_names_no_button_turns_off(operator, form):
    services.image_failover_set(enabled=True, ambiguous=True, changed_by="ada")
    operator.post(URL, form)
    assert stored() == (False, False, False)


def test_turning_on_is_not_widened_by_the_environment(operator, monkeypatch):
    monkeypatch.setenv(AMBIGUOUS, "true")
    monkeypatch.setenv(UNCERTAIN, "true")
    operator.post(URL, {"do": "on"})
    assert "Nothing is charged twice" in str(words(operator).words)


def test_one_change_has_one_version_and_is_logged_at_what_changed(operator):
    services.image_failover_set(enabled=False, changed_by="ada")
    before = config_version()
    operator.post(URL, {"do": "on", "uncertain": "yes"})
    assert config_version() == before + 1
    logged = {entry.object_repr: entry.change_message for entry in LogEntry.objects.all()}
    assert logged == dict.fromkeys((SWITCH, UNCERTAIN), "Image failover is on.")
    row = RuntimeFlag.objects.get(name=SWITCH)
    assert row.changed_by.startswith("operator")
    assert row.changed_at is not None


@pytest.mark.parametrize("do", ["on", "off", "clear"])
def test_a_pinned_switch_is_left_alone(operator, settings, do):
    settings.PINNED_FLAGS = (SWITCH,)
    before = config_version()
    page = operator.post(URL, {"do": do, "uncertain": "yes"}, follow=True)
    if do != "clear":
        assert "fixed by the environment" in page.content.decode()
        assert config_version() == before
    assert stored() == (None, None, None)
    assert 'data-opens-dialog="' not in page.content.decode()


def test_a_pinned_range_is_left_alone(operator, settings):
    settings.PINNED_FLAGS = (AMBIGUOUS, UNCERTAIN)
    operator.post(URL, {"do": "on", "ambiguous": "yes", "uncertain": "yes"})
    assert stored() == (True, None, None)


def test_the_service_refuses_a_pinned_switch(settings):
    settings.PINNED_FLAGS = (SWITCH,)
    with pytest.raises(ValidationError, match="fixed by the environment"):
        services.image_failover_set(enabled=True)


@pytest.mark.parametrize("role", [None, *(role.value for role in Role), "superuser"])
def test_only_who_may_change_flags_may_press_it(client, role):
    response = signed_in(client, role).post(URL, {"do": "on"})
    may = role in {"operator", "superuser"}
    assert response.status_code == (302 if may else 403)
    assert stored() == ((True, False, False) if may else (None, None, None))


def test_strangers_are_sent_to_the_login(client):
    assert client.post(URL, {"do": "on"}).url.startswith(reverse("admin:login"))
    assert stored() == (None, None, None)


def test_looking_at_its_address_changes_nothing(operator):
    assert operator.get(URL, {"do": "on"}).status_code == 405
    assert stored() == (None, None, None)


def test_a_forged_form_is_refused():
    from django.test import Client  # noqa: PLC0415  one that checks tokens

    client = signed_in(Client(enforce_csrf_checks=True), "operator")
    assert client.post(URL, {"do": "on"}).status_code == 403
    assert stored() == (None, None, None)


@pytest.mark.parametrize("name", IMAGE_FAILOVER_FLAGS)
def test_a_flags_own_page_does_not_go_round_the_dialog(operator, name):
    row = RuntimeFlag.objects.get(name=name)
    page = reverse("admin:channels_admin_runtimeflag_change", args=[row.pk])
    operator.post(page, {"console_value": "true"})
    assert stored() == (None, None, None)


def test_the_page_groups_flags_in_the_order_of_their_table(operator):
    sections = operator.get(LIST).context["sections"]
    groups = [section.group.value for section in sections]
    assert groups[0] == "image failover"
    assert len(groups) == len(set(groups)) == 7
    assert sum(len(section.lines) for section in sections) == 23


def test_a_search_leaves_the_switch_whole(operator):
    services.image_failover_set(enabled=True, uncertain=True)
    sections = operator.get(LIST, {"q": "AMBIGUOUS"}).context["sections"]
    assert [[line.flag.name for line in section.lines] for section in sections] == [[AMBIGUOUS]]
    assert "will be charged twice" in str(sections[0].failover.words)
