"""Top-ups, corrections, refunds: once an operation, never more back than was charged, told to the store."""

import threading
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection

from billing.admission import StoreUnavailable
from billing.admission.open_record import AccountState
from billing.models import Account, LedgerEntry
from billing.services import account_states
from billing.services.ledger import account_correct, account_refund, account_top_up, refundable_nano
from billing.services.requests import requests_record
from tests.billing.books import assert_books_balance
from tests.factories.billing import open_record_make, owner_make, request_id_make, settlement_make

pytestmark = pytest.mark.django_db
HAND = {"reason": "said so", "actor": "ada"}


@pytest.fixture
def owner():
    return owner_make()


@pytest.fixture
def told(monkeypatch):
    """What the store was told of balances."""
    puts: list[AccountState] = []

    class Store:
        def accounts_put(self, states) -> None:
            puts.extend(states)

    monkeypatch.setattr(account_states, "open_records", Store)
    return puts


def balance(owner) -> int:
    return Account.objects.get(tenant=owner.tenant).balance_nano


@pytest.mark.parametrize(
    ("service", "amount", "kind", "source"),
    [
        (account_top_up, 5, "topup", "topup:op-1"),
        (account_correct, 5, "correction", "correction:op-1"),
        (account_correct, -7, "correction", "correction:op-1"),
    ],
)
def test_an_operation_is_posted_once(  # noqa: PLR0917  a row of the table and three fixtures
    owner, told, service, amount, kind, source, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        first = service(tenant_id=owner.tenant.pk, operation="op-1", amount_nano=amount, **HAND)
        again = service(tenant_id=owner.tenant.pk, operation="op-1", amount_nano=amount, **HAND)
    assert (first.posted, again.posted) == (True, False)
    assert again.entry == first.entry
    entry = LedgerEntry.objects.get()
    assert (entry.kind, entry.source, entry.amount_nano) == (kind, source, amount)
    assert (entry.reason, entry.actor, entry.request_id) == ("said so", "ada", None)
    assert balance(owner) == amount
    assert set(told) == {AccountState(owner.tenant.pk, amount, 1)}
    assert_books_balance()


def test_an_operation_id_means_one_thing(owner):
    account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=5, **HAND)
    with pytest.raises(ValidationError):
        account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=6, **HAND)
    with pytest.raises(ValidationError):
        account_top_up(tenant_id=owner_make().tenant.pk, operation="op", amount_nano=5, **HAND)
    assert list(LedgerEntry.objects.values_list("amount_nano", flat=True)) == [5]


@pytest.mark.parametrize(
    "broken",
    [
        {"amount_nano": 0},
        {"amount_nano": -1},
        {"amount_nano": 10**16 + 1},
        {"reason": "  "},
        {"reason": "r" * 201},
        {"operation": ""},
        {"operation": "a b"},
        {"operation": "o" * 65},
    ],
    ids=repr,
)
def test_bad_top_ups_are_refused(owner, broken):
    fields = {"tenant_id": owner.tenant.pk, "operation": "op", "amount_nano": 5, **HAND}
    with pytest.raises(ValidationError):
        account_top_up(**(fields | broken))
    assert LedgerEntry.objects.count() == 0


def test_a_correction_of_nothing_is_refused(owner):
    with pytest.raises(ValidationError):
        account_correct(tenant_id=owner.tenant.pk, operation="op", amount_nano=0, **HAND)


def charged(owner, amount: int) -> UUID:
    settlement = settlement_make(owner, amount)
    requests_record([settlement])
    return UUID(settlement.outcome.request_id)


@pytest.mark.parametrize(
    ("refunds", "allowed", "left"),
    [
        ([100], [True], 0),
        ([101], [False], 100),
        ([60, 40, 1], [True, True, False], 0),
        ([60, 41, 40], [True, False, True], 0),
        ([0], [False], 100),
        ([-5], [False], 100),
        ([None], [True], 0),
        ([30, None], [True, True], 0),
        ([None, None], [True, False], 0),
    ],
    ids=repr,
)
def test_no_more_is_refunded_than_was_charged(owner, refunds, allowed, left):
    request_id = charged(owner, 100)
    done = []
    for number, amount in enumerate(refunds):
        try:
            account_refund(request_id=request_id, operation=f"op-{number}", amount_nano=amount, **HAND)
            done.append(True)
        except ValidationError:
            done.append(False)
    assert done == allowed
    assert refundable_nano(request_id) == left
    assert balance(owner) == -left
    assert_books_balance()


@pytest.mark.parametrize("amount", [100, None])
def test_a_refund_is_posted_once(owner, amount):
    request_id = charged(owner, 100)
    for expected in (True, False):
        posting = account_refund(request_id=request_id, operation="op", amount_nano=amount, **HAND)
        assert posting.posted is expected
    assert balance(owner) == 0
    entry = LedgerEntry.objects.get(kind="refund")
    assert (entry.source, entry.request_id, entry.amount_nano) == ("refund:op", request_id, 100)


def test_a_refund_goes_by_the_corrected_charge(owner):
    request_id = request_id_make()
    requests_record([open_record_make(owner, 100, request_id=request_id)])
    requests_record([settlement_make(owner, 70, request_id=request_id)])
    assert refundable_nano(UUID(request_id)) == 70
    with pytest.raises(ValidationError):
        account_refund(request_id=UUID(request_id), operation="op", amount_nano=71, **HAND)


def test_what_was_never_charged_is_not_refunded(owner):
    with pytest.raises(ValidationError):
        account_refund(request_id=uuid4(), operation="op", amount_nano=1, **HAND)
    free = charged(owner, 0)
    with pytest.raises(ValidationError):
        account_refund(request_id=free, operation="op", **HAND)


def test_a_refund_after_the_request_was_deleted(owner):
    from billing.models import RelayRequest  # noqa: PLC0415  one test

    request_id = charged(owner, 9)
    RelayRequest.objects.all().delete()
    assert account_refund(request_id=request_id, operation="op", **HAND).entry.amount_nano == 9


def test_a_store_that_is_away_holds_nothing_up(
    owner, monkeypatch, django_capture_on_commit_callbacks, caplog
):
    class Away:
        def accounts_put(self, states) -> None:
            raise StoreUnavailable("TimeoutError")

    monkeypatch.setattr(account_states, "open_records", Away)
    with django_capture_on_commit_callbacks(execute=True):
        account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=5, **HAND)
    assert balance(owner) == 5
    assert "StoreUnavailable" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_two_threads_refund_once(told):
    owner = owner_make()
    request_id = charged(owner, 100)
    gate, results = threading.Barrier(4), []

    def work(operation: str) -> None:
        try:
            gate.wait(5)
            account_refund(request_id=request_id, operation=operation, amount_nano=60, **HAND)
            results.append(True)
        except (ValidationError, IntegrityError) as error:
            results.append(type(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "a", "b", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results, key=str) == sorted([True, True, ValidationError, ValidationError], key=str)
    assert balance(owner) == -40
    assert told[-1] == AccountState(owner.tenant.pk, -40, 2)
    assert_books_balance()
