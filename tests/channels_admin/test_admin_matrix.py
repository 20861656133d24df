"""Every console page × role → expected status. A newly registered model without a row here fails.

To add a model: a row in MATRIX. Who is not named is refused; anonymous visitors and users who are no
staff are sent to the login.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db.models.signals import post_migrate
from django.urls import reverse

from billing.core.prices import PriceParts
from billing.services.prices import cost_price_set, group_multiplier_set, price_set
from channels_admin.models import RuntimeFlag
from channels_admin.roles import Role
from channels_admin.services import model_route_set
from tests.factories.channels import a_channel, a_policy, a_staff_user, a_tenant, an_api_key

pytestmark = pytest.mark.django_db

SUPER, OPERATOR, BILLING, VIEWER = "superuser", *(role.value for role in Role)
STAFF, OUTSIDER, ANONYMOUS = "staff", "outsider", "anonymous"
ROLES = (SUPER, OPERATOR, BILLING, VIEWER, STAFF, OUTSIDER, ANONYMOUS)
NOBODY: frozenset[str] = frozenset()
NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def only(*roles: str) -> frozenset[str]:
    return frozenset(roles)


def an_upstream_key_row():
    return a_channel().upstream_keys.get()


def a_price():
    return price_set(model="m", parts=PriceParts(input=Decimal(1)), effective_from=NEW_YEAR).price


def a_cost_price():
    parts = PriceParts(input=Decimal(1))
    channel = a_channel()
    return cost_price_set(channel_id=channel.pk, model="m", parts=parts, effective_from=NEW_YEAR).cost_price


def a_multiplier():
    return group_multiplier_set(group="vip", multiplier=Decimal(2), effective_from=NEW_YEAR).multiplier


@dataclass(frozen=True, slots=True)
class Row:
    """Roles that may open the pages of a model. make: a row to open; None where its app tests that."""

    view: frozenset[str]
    add: frozenset[str] = NOBODY
    change: frozenset[str] = NOBODY
    delete: frozenset[str] = NOBODY
    make: Callable[[], Any] | None = None


OPERATED = only(SUPER, OPERATOR)
PRICED = only(SUPER, OPERATOR, BILLING), only(SUPER, BILLING), only(SUPER, BILLING)
MATRIX = {
    "channels_admin.tenant": Row(only(SUPER, OPERATOR, BILLING), OPERATED, OPERATED, make=a_tenant),
    "channels_admin.apikey": Row(OPERATED, OPERATED, OPERATED, make=lambda: an_api_key()[0]),
    "channels_admin.channel": Row(OPERATED, OPERATED, OPERATED, make=a_channel),
    "channels_admin.upstreamkey": Row(OPERATED, OPERATED, OPERATED, make=an_upstream_key_row),
    "channels_admin.streampolicy": Row(OPERATED, OPERATED, OPERATED, make=a_policy),
    "channels_admin.modelroute": Row(OPERATED, OPERATED, OPERATED, make=lambda: model_route_set(model="m")),
    "channels_admin.runtimeflag": Row(
        OPERATED, NOBODY, OPERATED, make=lambda: RuntimeFlag.objects.get(name="RETRY_TIMES")
    ),
    "billing.price": Row(*PRICED, make=a_price),
    "billing.costprice": Row(*PRICED, make=a_cost_price),
    "billing.groupmultiplier": Row(*PRICED, make=a_multiplier),
    "billing.account": Row(only(SUPER, BILLING)),
    "billing.ledgerdrift": Row(only(SUPER, BILLING)),
    "billing.ledgerentry": Row(only(SUPER, BILLING)),
    "billing.deadoutcome": Row(only(SUPER, OPERATOR, BILLING)),
    "billing.usagedaily": Row(only(SUPER, OPERATOR, BILLING, VIEWER)),
    "billing.relayrequest": Row(only(SUPER, OPERATOR, BILLING)),
    "auth.user": Row(
        only(SUPER), only(SUPER), only(SUPER), only(SUPER), make=lambda: User.objects.create(username="other")
    ),
    "auth.group": Row(
        only(SUPER), only(SUPER), only(SUPER), only(SUPER), make=lambda: Group.objects.create(name="other")
    ),
    "axes.accessattempt": Row(only(SUPER)),
    "axes.accesslog": Row(only(SUPER)),
    "axes.accessfailurelog": Row(only(SUPER)),
}
CASES = [(label, role) for label in MATRIX for role in ROLES]
CASES_WITH_ROW = [(label, role) for label, role in CASES if MATRIX[label].make]


def test_every_registered_model_is_in_the_matrix():
    registered = {model._meta.label_lower for model in admin.site._registry}
    assert registered - set(MATRIX) == set(), "add a row to MATRIX for each"
    assert set(MATRIX) - registered == set(), "no longer registered"


def enter(client, role):
    if role == ANONYMOUS:
        return client
    if role == OUTSIDER:
        user = User.objects.create(username="outsider")
    else:
        user = a_staff_user(None if role == STAFF else role)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def expected(role, allowed):
    if role in {OUTSIDER, ANONYMOUS}:
        return 302
    return 200 if role in allowed else 403


def page_url(label, page, *args):
    return reverse(f"admin:{label.replace('.', '_')}_{page}", args=args)


def check(response, role, allowed):
    assert response.status_code == expected(role, allowed)
    if role in {OUTSIDER, ANONYMOUS}:
        assert response.url.startswith(reverse("admin:login"))


@pytest.mark.parametrize(("label", "role"), CASES)
def test_list_and_add(client, label, role):
    enter(client, role)
    row = MATRIX[label]
    check(client.get(page_url(label, "changelist")), role, row.view)
    check(client.get(page_url(label, "add")), role, row.add)


@pytest.mark.parametrize(("label", "role"), CASES_WITH_ROW)
def test_change_history_and_delete(client, label, role):
    row = MATRIX[label]
    pk = row.make().pk
    enter(client, role)
    check(client.get(page_url(label, "change", pk)), role, row.view)
    check(client.get(page_url(label, "history", pk)), role, row.view)
    check(client.get(page_url(label, "delete", pk)), role, row.delete)


@pytest.mark.parametrize(("label", "role"), CASES_WITH_ROW)
def test_saving_is_refused_to_all_who_may_not_change(client, label, role):
    row = MATRIX[label]
    pk = row.make().pk
    enter(client, role)
    response = client.post(page_url(label, "change", pk), {})
    if role in row.change:
        assert response.status_code != 403
    else:
        check(response, role, NOBODY)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("label", "action", "kept"),
    [
        ("channels_admin.tenant", "close_tenants", "active"),
        ("channels_admin.apikey", "close_api_keys", "active"),
        ("channels_admin.channel", "disable_channels", "enabled"),
        ("channels_admin.upstreamkey", "disable_upstream_keys", "enabled"),
    ],
)
def test_actions_change_nothing_for_all_who_may_not_change(client, label, action, kept, role):
    row = MATRIX[label].make()
    enter(client, role)
    values = {"action": action, "_selected_action": [row.pk], "confirmed": "yes"}
    client.post(page_url(label, "changelist"), values)
    row.refresh_from_db()
    assert (row.status != kept) == (role in MATRIX[label].change)


@pytest.mark.parametrize(
    ("role", "status"),
    [
        (SUPER, 200),
        (OPERATOR, 200),
        (BILLING, 200),
        (VIEWER, 200),
        (STAFF, 200),
        (OUTSIDER, 302),
        (ANONYMOUS, 302),
    ],
)
def test_the_index_shows_each_role_its_own_pages_only(client, role, status):
    response = enter(client, role).get(reverse("admin:index"))
    assert response.status_code == status
    if status == 200:
        shown = {
            model["model"]._meta.label_lower
            for app in response.context["app_list"]
            for model in app["models"]
        }
        assert shown == {label for label, row in MATRIX.items() if role in row.view}


def after_migration():
    config = apps.get_app_config("channels_admin")
    post_migrate.send(sender=config, app_config=config, verbosity=0, interactive=False, using="default")


def test_no_role_may_delete_anything():
    deleting = Permission.objects.filter(codename__startswith="delete_", group__isnull=False)
    assert list(deleting) == []


def test_roles_are_put_right_by_the_next_migration():
    """Default deny: what was granted by hand goes, what was taken comes back."""
    operator = Group.objects.get(name=OPERATOR)
    before = set(operator.permissions.all())
    operator.permissions.remove(Permission.objects.get(codename="change_channel"))
    operator.permissions.add(Permission.objects.get(codename="delete_channel"))
    after_migration()
    assert set(operator.permissions.all()) == before


def test_a_group_that_is_no_role_is_left_alone():
    own = Group.objects.create(name="night shift")
    own.permissions.add(Permission.objects.get(codename="change_channel"))
    after_migration()
    assert own.permissions.count() == 1
