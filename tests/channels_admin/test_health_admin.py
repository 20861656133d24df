"""Health in the console: what the lists say, and the action that ends a rest."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from channels_admin.health import HealthUnavailable, Route, RouteKind, health_forget, health_store
from tests.factories.channels import a_channel, a_staff_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_store(settings):
    settings.REDIS_URL = ""
    health_forget()
    yield
    health_forget()


@pytest.fixture
def operator(client):
    client.force_login(a_staff_user("operator"))
    return client


CHANNELS, KEYS = (
    reverse("admin:channels_admin_channel_changelist"),
    reverse("admin:channels_admin_upstreamkey_changelist"),
)


@pytest.mark.parametrize("kind", RouteKind)
def test_a_rest_is_shown_with_its_reason_and_ended_by_the_action(operator, kind):
    channel = a_channel()
    is_channel = kind is RouteKind.CHANNEL
    row = channel if is_channel else channel.upstream_keys.get()
    url = CHANNELS if is_channel else KEYS
    route = Route(kind, row.pk)
    health_store().cool(route, 40, "status_429")
    page = operator.get(url).content.decode()
    [rests_for_s] = re.findall(r"rests for (\d+) s: status_429", page)
    assert 20 < int(rests_for_s) <= 40, "some of them have passed"
    operator.post(url, {"action": "clear_cooldowns", "_selected_action": [row.pk]}, follow=True)
    assert health_store().states() == {}
    assert "sound" in operator.get(url).content.decode()
    assert LogEntry.objects.filter(object_id=str(row.pk), change_message__contains="Cooldown").exists()


def test_failures_in_a_row_are_counted_in_words(operator):
    route = Route(RouteKind.CHANNEL, a_channel().pk)
    health_store().failed(route)
    assert "1 failure in a row" in operator.get(CHANNELS).content.decode()
    health_store().failed(route)
    assert "2 failures in a row" in operator.get(CHANNELS).content.decode()


def test_a_viewer_may_not_clear(client):
    channel = a_channel()
    client.force_login(a_staff_user("viewer"))
    health_store().cool(Route(RouteKind.CHANNEL, channel.pk), 40, "x")
    client.post(CHANNELS, {"action": "clear_cooldowns", "_selected_action": [channel.pk]})
    assert health_store().states()


def test_a_store_that_is_away_breaks_no_page(operator, monkeypatch):
    channel = a_channel()

    def away(*_args):
        raise HealthUnavailable("x")

    monkeypatch.setattr(type(health_store()), "states", away)
    monkeypatch.setattr(type(health_store()), "clear", away)
    assert "unknown" in operator.get(CHANNELS).content.decode()
    page = operator.post(
        CHANNELS, {"action": "clear_cooldowns", "_selected_action": [channel.pk]}, follow=True
    )
    assert "does not answer" in page.content.decode()
