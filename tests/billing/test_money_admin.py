"""The console's pages that move money: asked once more, once per operation, only by who may, in the log."""

import uuid
from decimal import Decimal

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.urls import reverse

from billing.models import Account, LedgerDrift, LedgerEntry
from billing.services.ledger import account_make, account_top_up
from billing.services.requests import requests_record
from channels_admin.roles import Role
from tests.factories.billing import owner_make, settlement_make

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:No directory at:UserWarning"),
]


@pytest.fixture
def owner():
    return owner_make()


@pytest.fixture
def account(owner):
    account_top_up(tenant_id=owner.tenant.pk, operation="first", amount_nano=10**9, reason="r", actor="a")
    return Account.objects.get(tenant=owner.tenant)


@pytest.fixture
def charge(owner, account):
    requests_record([settlement_make(owner, 400_000_000)])
    return LedgerEntry.objects.get(kind="charge")


def enter(client, role) -> User:
    user = User.objects.create(username="Ada", is_staff=True, is_superuser=role == "superuser")
    if isinstance(role, Role):
        user.groups.add(Group.objects.get(name=role.value))
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return user


def values(**overrides) -> dict[str, str]:
    return {"amount": "0.25", "reason": "said so", "operation": str(uuid.uuid4())} | overrides


def balance(account) -> int:
    return Account.objects.get(pk=account.pk).balance_nano


@pytest.mark.parametrize(
    ("page", "amount", "after"), [("top_up", "0.25", 1_250_000_000), ("correct", "-1.5", -500_000_000)]
)
def test_money_moves_after_a_question_once(client, account, page, amount, after):
    user = enter(client, Role.BILLING)
    address = reverse(f"admin:billing_account_{page}", args=(account.pk,))
    assert client.get(address).status_code == 200
    form = values(amount=amount)
    asked = client.post(address, form)
    assert asked.status_code == 200
    assert b'name="confirmed"' in asked.content
    assert balance(account) == 10**9
    for _ in range(2):
        answer = client.post(address, form | {"confirmed": "yes"}, follow=True)
        assert answer.status_code == 200
        assert answer.redirect_chain[0][1] == 302
    assert balance(account) == after
    entry = LedgerEntry.objects.latest("id")
    assert (entry.reason, entry.actor) == ("said so", "Ada")
    log = LogEntry.objects.get()
    assert (log.user, log.object_id) == (user, str(account.pk))
    assert entry.source in log.change_message


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"amount": "0"}, None),
        ({"amount": "-1"}, None),
        ({"amount": "NaN"}, "amount"),
        ({"amount": "10000001"}, None),
        ({"amount": "0.0000000001"}, "amount"),
        ({"reason": " "}, "reason"),
        ({"reason": "r" * 201}, "reason"),
        ({"operation": "x"}, "operation"),
    ],
)
def test_bad_input_is_told_and_moves_nothing(client, account, overrides, field):
    enter(client, Role.BILLING)
    address = reverse("admin:billing_account_top_up", args=(account.pk,))
    answer = client.post(address, values(**overrides) | {"confirmed": "yes"})
    assert answer.status_code == 200
    assert answer.context["form"].errors[field or "__all__"]
    assert balance(account) == 10**9


def test_a_request_is_refunded_from_its_entry(client, account, charge):
    enter(client, Role.BILLING)
    address = reverse("admin:billing_ledgerentry_refund", args=(charge.pk,))
    assert client.get(address).context["form"].initial["amount"] == Decimal("0.4")
    too_much = client.post(address, values(amount="0.41") | {"confirmed": "yes"})
    assert "0.40" in str(too_much.context["form"].errors)
    client.post(address, values(amount="0.4") | {"confirmed": "yes"})
    assert balance(account) == 10**9
    refund = LedgerEntry.objects.get(kind="refund")
    assert (refund.request_id, refund.actor) == (charge.request_id, "Ada")


def test_what_belongs_to_no_request_cannot_be_refunded(client, account, charge):
    enter(client, Role.BILLING)
    top_up = LedgerEntry.objects.get(kind="topup")
    assert client.get(reverse("admin:billing_ledgerentry_refund", args=(top_up.pk,))).status_code == 404
    page = reverse("admin:billing_ledgerentry_change", args=(top_up.pk,))
    assert "refund/" not in client.get(page).content.decode()
    page = reverse("admin:billing_ledgerentry_change", args=(charge.pk,))
    assert "refund/" in client.get(page).content.decode()


@pytest.mark.parametrize(
    ("role", "status"),
    [("superuser", 200), (Role.BILLING, 200), (Role.OPERATOR, 403), (Role.VIEWER, 403), (None, 403)],
)
def test_only_billing_staff_moves_money(client, account, charge, role, status):
    enter(client, role)
    addresses = [
        reverse("admin:billing_account_top_up", args=(account.pk,)),
        reverse("admin:billing_account_correct", args=(account.pk,)),
        reverse("admin:billing_account_top_up_tenant"),
        reverse("admin:billing_ledgerentry_refund", args=(charge.pk,)),
    ]
    assert [client.get(address).status_code for address in addresses] == [status] * 4
    before = balance(account)
    for address in addresses:
        client.post(address, values() | {"confirmed": "yes"})
    assert (balance(account) != before) is (status == 200)


def test_visitors_are_sent_to_the_login(client, account):
    answer = client.post(
        reverse("admin:billing_account_top_up", args=(account.pk,)), values() | {"confirmed": "yes"}
    )
    assert answer.status_code == 302
    assert answer.url.startswith(reverse("admin:login"))
    assert balance(account) == 10**9


def test_a_tenant_without_an_account_gets_one(client, owner):
    enter(client, Role.BILLING)
    address = reverse("admin:billing_account_top_up_tenant")
    assert client.post(address, {"tenant": "nobody"}).context["form"].errors["tenant"]
    assert Account.objects.count() == 0
    answer = client.post(address, {"tenant": owner.tenant.name})
    account = Account.objects.get()
    assert answer.url == reverse("admin:billing_account_top_up", args=(account.pk,))
    assert account_make(tenant_id=owner.tenant.pk) == account
    assert client.get(address).status_code == 200


def test_who_may_not_see_accounts_makes_none(client, owner):
    user = User.objects.create(username="Bo", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="top_up_account"))
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    address = reverse("admin:billing_account_top_up_tenant")
    assert client.get(address).status_code == 403
    assert client.post(address, {"tenant": owner.tenant.name}).status_code == 403
    assert not Account.objects.exists()


@pytest.mark.parametrize("page", ["top_up", "correct"])
def test_who_may_not_see_an_account_moves_none_of_its_money(client, account, page):
    user = User.objects.create(username="Bo", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=["top_up_account", "correct_account"]))
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    address = reverse(f"admin:billing_account_{page}", args=(account.pk,))
    assert client.post(address, values() | {"confirmed": "yes"}).status_code == 403
    assert balance(account) == 10**9


@pytest.mark.parametrize("object_id", ["0", "x", "9" * 30, "-1"])
def test_ids_that_are_none(client, object_id):
    enter(client, Role.BILLING)
    address = reverse("admin:billing_account_top_up", args=("1",)).replace("/1/", f"/{object_id}/")
    assert client.get(address).status_code == 404


def test_drifts_are_shown(client, account):
    enter(client, Role.BILLING)
    LedgerDrift.objects.create(
        account=account, kind="chain", place="account 1 entry 2", expected="balance 3", found="balance 4"
    )
    text = client.get(reverse("admin:billing_ledgerdrift_changelist")).content.decode()
    assert "account 1 entry 2" in text
    assert "balance 4" in text
