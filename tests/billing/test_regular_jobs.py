"""The regular jobs: what the store should not hold any more, and balances it missed."""

import asyncio
import datetime

import pytest
from django.db import OperationalError

from billing import tasks
from billing.admission import SettledRecord, StoreUnavailable, admission_port, open_records
from billing.admission.memory import MemoryStore
from billing.admission.open_record import AccountState, AdmissionAsk, Admitted, RefusedBalance
from billing.models import Account, DeadOutcome, LedgerEntry, RelayRequest
from billing.outcome_codec import open_record_encode, settlement_encode
from billing.schedule import BEAT_SCHEDULE
from billing.selectors.accounts import account_state, accounts_newer_than
from billing.services.account_states import accounts_publish_changed
from billing.services.ledger import account_top_up
from billing.services.ledger_entries import database_now
from billing.services.requests import requests_record
from tests.billing.books import assert_books_balance
from tests.factories.billing import open_record_make, owner_make, request_id_make, settlement_make

pytestmark = pytest.mark.django_db
HAND = {"reason": "said so", "actor": "ada"}


@pytest.fixture
def owner():
    return owner_make()


@pytest.fixture(params=["memory", "redis"])
def store(request):
    request.getfixturevalue(f"{request.param}_settings")
    return open_records()


def settle(*settlements) -> None:
    async def live() -> None:
        port = admission_port()
        records = [
            SettledRecord(
                one.outcome.request_id, settlement_encode(one), one.outcome.tenant_id, one.amount_nano
            )
            for one in settlements
        ]
        await port.settle(records)
        await port.aclose()

    asyncio.run(live())


def admit(ask: AdmissionAsk):
    async def live():
        port = admission_port()
        try:
            return await port.admit("epoch", ask)
        finally:
            await port.aclose()

    return asyncio.run(live())


def available(owner) -> int:
    """Asked by wanting more than anybody has."""
    ask = AdmissionAsk(request_id=request_id_make(), account_id=owner.tenant.pk, hold_nano=10**18)
    answer = admit(ask)
    assert isinstance(answer, RefusedBalance)
    return answer.available_nano


# ---- open records


def test_a_settlement_leaves_the_store_with_the_new_balance(store, owner):
    store.accounts_put([AccountState(owner.tenant.pk, 0, 0)])
    account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=100, **HAND)
    settle(settlement_make(owner, 30), settlement_make(owner, 12))
    assert available(owner) == -42
    tasks.record_settled()
    assert available(owner) == 58
    assert store.open_amounts() == {}


def test_records_whose_row_is_final_are_forgotten(store, owner, caplog):
    store.accounts_put([AccountState(owner.tenant.pk, 0, 0)])
    written, fresh = settlement_make(owner, 30), settlement_make(owner, 12)
    requests_record([written])
    settle(written, fresh)
    tasks.reconcile_open_records()
    assert store.settled_ids(10) == []
    assert available(owner) == -42
    assert "1 settled record" in caplog.text
    assert_books_balance()


def test_a_late_outcome_is_recorded_and_not_forgotten(store, owner):
    request_id = request_id_make()
    requests_record([open_record_make(owner, 5, request_id=request_id)])
    settle(settlement_make(owner, 9, request_id=request_id))
    tasks.reconcile_open_records()
    assert RelayRequest.objects.get().state == "final"
    assert account_state(owner.tenant.pk).balance_nano == -9


def test_ids_that_are_none_do_not_stop_the_run(store, owner):
    async def strange() -> None:
        await admission_port().settle([SettledRecord("strange", b"?")])
        await admission_port().aclose()

    asyncio.run(strange())
    settle(settlement_make(owner, 9))
    tasks.reconcile_open_records()
    assert store.settled_ids(10) == ["strange"]
    assert DeadOutcome.objects.get().request_id == "strange"


@pytest.mark.parametrize("error", [StoreUnavailable("TimeoutError"), OperationalError("password=hunter2")])
@pytest.mark.parametrize(
    "task",
    [tasks.reconcile_open_records, tasks.accounts_publish, tasks.delete_old_requests],
    ids=lambda t: t.name,
)
def test_what_does_not_answer_ends_the_run(monkeypatch, caplog, task, error):
    class Away:
        def __getattr__(self, name):
            raise error

    monkeypatch.setattr(tasks, "open_records", Away)
    monkeypatch.setattr("billing.services.account_states.open_records", Away)
    account_top_up(tenant_id=owner_make().tenant.pk, operation="op", amount_nano=1, **HAND)
    task()
    assert type(error).__name__ in caplog.text
    assert "hunter2" not in caplog.text


def test_two_hundred_requests_of_a_killed_process_are_billed_once(monkeypatch, owner):
    """More than one batch of them, in one run; a second run changes nothing."""
    now = [1_000.0]
    store = MemoryStore(lambda: now[0])
    monkeypatch.setattr(tasks, "open_records", lambda: store.workers)
    account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=10**6, **HAND)
    store.workers.accounts_put([account_state(owner.tenant.pk)])

    async def begin(number: int) -> None:
        record = open_record_make(owner, number)
        ask = AdmissionAsk(
            request_id=record.draft.request_id,
            account_id=owner.tenant.pk,
            hold_nano=1_000,
            record=open_record_encode(record),
        )
        assert isinstance(await store.admit("doomed", ask), Admitted)

    for number in range(250):
        asyncio.run(begin(number))
    for _ in range(20):
        now[0] += 5
        store.workers.beat()
    tasks.reconcile_open_records()
    assert RelayRequest.objects.filter(state="abandoned").count() == 250
    assert store.workers.open_amounts() == {}
    entries = LedgerEntry.objects.count()
    tasks.reconcile_open_records()
    assert LedgerEntry.objects.count() == entries == 251
    assert account_state(owner.tenant.pk).balance_nano == 10**6 - sum(range(250))
    assert_books_balance()


def test_an_unreadable_open_record_is_kept_for_a_person_with_its_hold(monkeypatch, owner, caplog):
    now = [1_000.0]
    store = MemoryStore(lambda: now[0])
    monkeypatch.setattr(tasks, "open_records", lambda: store.workers)
    store.workers.accounts_put([AccountState(owner.tenant.pk, 10, 1)])
    ask = AdmissionAsk(request_id=request_id_make(), account_id=owner.tenant.pk, hold_nano=7, record=b"?")
    asyncio.run(store.admit("doomed", ask))
    for _ in range(20):
        now[0] += 5
        store.workers.beat()
    tasks.reconcile_open_records()
    assert DeadOutcome.objects.get().request_id == ask.request_id
    assert store.workers.open_amounts() == {owner.tenant.pk: 7}
    assert "booked as abandoned" not in caplog.text


# ---- balances


def test_sums_that_are_put_right_are_told(memory_settings, owner, caplog):
    store = open_records()
    settle(settlement_make(owner, 30))
    store._book.accounts.replace({owner.tenant.pk: 25, 999: 4})
    tasks.recompute_open_amounts()
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.endswith(f"put right: {owner.tenant.pk} by +5, 999 by -4")
    assert store.open_amounts() == {owner.tenant.pk: 30}
    caplog.clear()
    tasks.recompute_open_amounts()
    assert caplog.records == []


def test_a_balance_of_nobody_is_nothing(owner):
    assert account_state(owner.tenant.pk) == AccountState(owner.tenant.pk, 0, 0)
    assert account_state(10**9) == AccountState(10**9, 0, 0)


def test_newer_accounts_are_those_that_changed(owner, django_assert_num_queries):
    others = [owner_make() for _ in range(3)]
    for number, one in enumerate([owner, *others]):
        account_top_up(tenant_id=one.tenant.pk, operation=f"op-{number}", amount_nano=7, **HAND)
    old = database_now() - datetime.timedelta(minutes=5)
    Account.objects.exclude(tenant=owner.tenant).update(changed_at=old)
    with django_assert_num_queries(1):
        everything = accounts_newer_than(None)
    assert {state.account_id for state in everything.states} == {one.tenant.pk for one in [owner, *others]}
    newer = accounts_newer_than(everything.until)
    assert newer.states == (AccountState(owner.tenant.pk, 7, 1),)  # within the overlap
    assert accounts_newer_than(everything.until, overlap_s=-60).states == ()
    account_top_up(tenant_id=others[0].tenant.pk, operation="again", amount_nano=1, **HAND)
    assert AccountState(others[0].tenant.pk, 8, 2) in accounts_newer_than(newer.until, overlap_s=1).states


def test_the_store_is_told_what_it_missed(store, owner):
    account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=50, **HAND)
    tasks.accounts_publish()
    assert available(owner) == 50
    Account.objects.update(changed_at=database_now() - datetime.timedelta(minutes=5))
    assert accounts_publish_changed() == 0
    account_top_up(tenant_id=owner.tenant.pk, operation="op-2", amount_nano=1, **HAND)
    assert accounts_publish_changed() == 1
    assert available(owner) == 51


def test_what_could_not_be_told_is_told_next_time(memory_settings, monkeypatch, owner):
    account_top_up(tenant_id=owner.tenant.pk, operation="op", amount_nano=50, **HAND)

    class Away:
        def accounts_put(self, states) -> None:
            raise StoreUnavailable("TimeoutError")

    with monkeypatch.context() as patch:
        patch.setattr("billing.services.account_states.open_records", Away)
        tasks.accounts_publish()
    Account.objects.update(changed_at=database_now() - datetime.timedelta(hours=5))
    tasks.accounts_publish()
    assert available(owner) == 50


def test_regular_jobs_expire_within_their_period():
    assert {entry["task"] for entry in BEAT_SCHEDULE.values()} == {
        "billing.heartbeat",
        "billing.reconcile_open_records",
        "billing.recompute_open_amounts",
        "billing.accounts_publish",
        "billing.delete_old_requests",
        "billing.reconcile_ledger",
        "billing.slice_usage",
    }
    assert BEAT_SCHEDULE["reconcile-open-records"]["schedule"] == 15
    assert BEAT_SCHEDULE["reconcile-ledger"]["schedule"] == 3600
