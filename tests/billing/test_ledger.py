"""Accounts: opened once; entries in an unbroken chain."""

import threading
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction

from billing.models import Account, EntryKind, LedgerEntry
from billing.services.ledger import account_open
from billing.services.ledger_entries import EntryDraft, accounts_lock, entries_post
from tests.factories.billing import owner_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant():
    return owner_make().tenant


@pytest.mark.parametrize(("usd", "nano"), [("12.5", 12_500_000_000), ("0", 0), ("-3", -3_000_000_000)])
def test_the_opening_entry_carries_the_balance(tenant, usd, nano):
    opening = account_open(tenant=tenant, balance_usd=Decimal(usd))
    assert opening.posted
    assert opening.warning == ""
    entry = LedgerEntry.objects.get()
    assert (entry.source, entry.kind, entry.account_seq) == (f"opening:{tenant.pk}", "opening", 1)
    assert (entry.amount_nano, entry.balance_after_nano) == (nano, nano)
    account = Account.objects.get(tenant=tenant)
    assert (account.balance_nano, account.account_seq) == (nano, 1)


def test_the_opening_entry_is_posted_once(tenant):
    account_open(tenant=tenant, balance_usd=Decimal(5))
    again = account_open(tenant=tenant, balance_usd=Decimal("5.000000000"))
    assert not again.posted
    assert again.warning == ""
    assert LedgerEntry.objects.count() == 1


def test_a_changed_opening_balance_is_a_warning_and_no_money(tenant):
    account_open(tenant=tenant, balance_usd=Decimal(5))
    again = account_open(tenant=tenant, balance_usd=Decimal(50))
    assert not again.posted
    assert tenant.name in again.warning
    assert "5.00" in again.warning
    assert "50.00" in again.warning
    assert Account.objects.get(tenant=tenant).balance_nano == 5_000_000_000
    assert LedgerEntry.objects.count() == 1


@pytest.mark.parametrize("usd", ["NaN", "Infinity"])
def test_no_account_opens_with_an_infinite_balance(tenant, usd):
    with pytest.raises(ValueError):
        account_open(tenant=tenant, balance_usd=Decimal(usd))
    assert Account.objects.count() == 0


def post(tenant, *amounts: int, kind=EntryKind.CHARGE, source="charge") -> None:
    drafts = [
        EntryDraft(tenant_id=tenant.pk, kind=kind, source=f"{source}:{number}", amount_nano=amount)
        for number, amount in enumerate(amounts, start=1)
    ]
    with transaction.atomic():
        entries_post(accounts_lock([tenant.pk]), drafts)


def test_entries_form_a_chain(tenant):
    account_open(tenant=tenant, balance_usd=Decimal(1))
    post(tenant, -250_000_000, 0, 30)
    entries = list(LedgerEntry.objects.order_by("account_seq"))
    assert [entry.account_seq for entry in entries] == [1, 2, 3, 4]
    assert [entry.balance_after_nano for entry in entries] == [10**9, 750_000_000, 750_000_000, 750_000_030]
    account = Account.objects.get(tenant=tenant)
    assert (account.balance_nano, account.account_seq) == (750_000_030, 4)
    assert account.changed_at == entries[-1].created_at


def test_a_source_is_posted_once(tenant):
    account_open(tenant=tenant, balance_usd=Decimal(1))
    post(tenant, 5, kind=EntryKind.TOP_UP, source="topup")
    with pytest.raises(IntegrityError):
        post(tenant, 5, kind=EntryKind.TOP_UP, source="topup")
    assert LedgerEntry.objects.filter(source="topup:1").count() == 1
    assert Account.objects.get(tenant=tenant).balance_nano == 1_000_000_005


@pytest.mark.django_db(transaction=True)
def test_two_threads_open_one_account_once():
    tenant = owner_make().tenant
    gate = threading.Barrier(2)
    posted, errors = [], []

    def work():
        try:
            gate.wait(5)
            posted.append(account_open(tenant=tenant, balance_usd=Decimal(3)).posted)
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert sorted(posted) == [False, True]
    assert Account.objects.get(tenant=tenant).balance_nano == 3_000_000_000
