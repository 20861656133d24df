"""Requests that are too old go; money, and what somebody still needs, stays."""

import asyncio
import datetime
import uuid

import pytest

from billing import tasks
from billing.admission import SettledRecord, admission_port, open_records
from billing.models import Attempt, LedgerEntry, RelayRequest, UsageDaily, UsageRecord
from billing.outcome_codec import settlement_encode
from billing.selectors.accounts import account_state
from billing.services import retention
from billing.services.ledger_entries import database_now
from billing.services.requests import requests_record
from billing.services.retention import requests_delete_old
from channels_admin.models import RuntimeFlag
from tests.factories.billing import owner_make, settlement_make

pytestmark = pytest.mark.django_db


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


def age(request_id: str, days: float) -> str:
    """As if it had been recorded so many days ago; its new id."""
    moment = database_now() - datetime.timedelta(days=days)
    old = uuid.UUID(int=(int(moment.timestamp() * 1000) << 80) | (uuid.UUID(request_id).int & (2**80 - 1)))
    row = RelayRequest.objects.get(pk=request_id)
    attempts, usage = list(row.attempts.all()), row.usage
    row.delete()
    row.pk, row.recorded_at = old, moment
    row.save(force_insert=True)
    for attempt in attempts:
        attempt.pk, attempt.request_id = None, old
        attempt.save(force_insert=True)
    usage.request_id = old
    usage.save(force_insert=True)
    return str(old)


@pytest.fixture
def aged(owner):
    """Requests of 91, 90.1 and 89 days."""
    settlements = [settlement_make(owner, 5) for _ in range(3)]
    requests_record(settlements)
    ids = [one.outcome.request_id for one in settlements]
    return [age(request_id, days) for request_id, days in zip(ids, (91, 90.1, 89), strict=True)]


def kept() -> set[str]:
    return {str(key) for key in RelayRequest.objects.values_list("pk", flat=True)}


def test_old_requests_go_and_money_stays(memory_settings, aged):
    entries, charged = LedgerEntry.objects.count(), UsageDaily.objects.get().charged_nano
    tasks.delete_old_requests()
    assert kept() == {aged[2]}
    assert (Attempt.objects.count(), UsageRecord.objects.count()) == (1, 1)
    assert (LedgerEntry.objects.count(), UsageDaily.objects.get().charged_nano) == (entries, charged)


@pytest.mark.parametrize(("days", "left"), [(88, 0), (90, 1), (365, 3)])
def test_the_flag_says_how_old(memory_settings, aged, days, left):
    RuntimeFlag.objects.filter(name="RETENTION_DAYS").update(value=days)
    requests_delete_old(open_records())
    assert len(kept()) == left


def test_abandoned_requests_stay(memory_settings, aged):
    RelayRequest.objects.filter(pk=aged[0]).update(state="abandoned")
    requests_delete_old(open_records())
    assert kept() == {aged[0], aged[2]}


def test_what_was_recorded_late_is_not_old(memory_settings, aged):
    RelayRequest.objects.filter(pk=aged[0]).update(recorded_at=database_now())
    requests_delete_old(open_records())
    assert kept() == {aged[0], aged[2]}


def test_what_the_store_holds_stays(store, aged):
    async def live() -> None:
        await admission_port().settle([SettledRecord(aged[1], b"?")])
        await admission_port().aclose()

    asyncio.run(live())
    requests_delete_old(open_records())
    assert kept() == {aged[1], aged[2]}


def test_a_store_that_holds_very_many_keeps_everything(memory_settings, monkeypatch, aged):
    monkeypatch.setattr(retention, "_SETTLED_MAX", 1)
    settle(settlement_make(owner_make(), 1))
    assert requests_delete_old(open_records()) == 0
    assert len(kept()) == 3


def test_many_are_deleted_in_batches_and_runs(memory_settings, monkeypatch, aged):
    monkeypatch.setattr(retention, "_BATCH", 1)
    assert requests_delete_old(open_records(), budget_s=-1) == 1
    assert requests_delete_old(open_records()) == 1
    assert requests_delete_old(open_records()) == 0


def test_a_deleted_request_that_comes_back_is_not_charged_again(memory_settings, aged, owner):
    requests_delete_old(open_records())
    source = LedgerEntry.objects.filter(kind="charge").first().source
    again = settlement_make(owner, 5, request_id=source.removeprefix("charge:"))
    RelayRequest.objects.filter(pk=again.outcome.request_id).delete()
    assert requests_record([again]).dead == {again.outcome.request_id}
    assert account_state(owner.tenant.pk).balance_nano == -15
