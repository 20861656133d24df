"""Many workers at once, and transactions that fail: nothing twice, nothing by half."""

import threading

import pytest
from django.db import OperationalError, connection, transaction

from billing.models import (
    Account,
    LedgerEntry,
    RelayRequest,
    UsageDaily,
)
from billing.services import booking
from billing.services.requests import requests_record
from tests.billing.books import assert_books_balance
from tests.factories.billing import (
    open_record_make,
    owner_make,
    settlement_make,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_threads_with_overlapping_batches_charge_once():
    owners = [owner_make() for _ in range(5)]
    abandoned = [open_record_make(owners[number % 5], 3) for number in range(20)]
    requests_record(abandoned)
    settlements = [settlement_make(owners[number % 5], number) for number in range(100)]
    settlements += [
        settlement_make(owners[number % 5], 10, request_id=record.draft.request_id)
        for number, record in enumerate(abandoned)
    ]
    batches = [settlements[:80], list(reversed(settlements[40:])), settlements[20:], settlements[::-1][:90]]
    gate, errors = threading.Barrier(4), []

    def work(batch) -> None:
        try:
            gate.wait(5)
            for start in range(0, len(batch), 20):
                requests_record(batch[start : start + 20])
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert RelayRequest.objects.filter(state="final").count() == 120
    assert LedgerEntry.objects.count() == 140
    assert_books_balance()


def test_new_accounts_in_two_threads_are_made_once():
    owners = [owner_make() for _ in range(30)]
    gate, errors = threading.Barrier(2), []

    def work(order) -> None:
        try:
            gate.wait(5)
            requests_record([settlement_make(one, 1) for one in order])
        except Exception as error:  # noqa: BLE001  told to the test's own thread
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(order,)) for order in (owners, owners[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert set(Account.objects.values_list("balance_nano", flat=True)) == {-2}
    assert_books_balance()


def test_a_transient_error_leaves_nothing_half_written(monkeypatch):
    owner = owner_make()

    def fail(*_args, **_named):
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(booking, "rollups_add", fail)
        with pytest.raises(OperationalError):
            requests_record([settlement_make(owner, 4)])
    assert (RelayRequest.objects.count(), LedgerEntry.objects.count(), UsageDaily.objects.count()) == (
        0,
        0,
        0,
    )
    assert not transaction.get_connection().in_atomic_block
