"""From a report to rows: the task on both stores, and the embedded mode end to end."""

import asyncio
import datetime
import threading
import time
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from billing import tasks
from billing.admission import (
    SettledRecord,
    StoreUnavailable,
    admission_forget,
    admission_port,
    open_records,
)
from billing.courier import Courier
from billing.models import Attempt, DeadOutcome, RelayRequest
from billing.nudger import Nudger
from billing.outcome_codec import outcome_encode, settlement_encode
from billing.services import booking
from billing.services.dead_outcomes import DEAD_RETRY_S
from billing.valuation import Reported
from tests.factories.billing import outcome_make, owner_make, settlement_make

EMBEDDED_ROW_WITHIN_S = 1.0  # the promise is 100 ms; a shared machine gets some more


@pytest.fixture(params=["memory", "redis"])
def store(request):
    request.getfixturevalue(f"{request.param}_settings")


async def settle(outcomes) -> None:
    port = admission_port()
    await port.settle([SettledRecord(item.request_id, outcome_encode(item)) for item in outcomes])
    await port.aclose()


@pytest.mark.django_db
def test_the_task_writes_everything_and_acknowledges(store):
    owner = owner_make()
    outcomes = [outcome_make(owner) for _ in range(450)]
    asyncio.run(settle(outcomes))
    tasks.record_settled()
    assert RelayRequest.objects.count() == 450
    counts = open_records().counts()
    assert (counts.waiting, counts.claimed) == (0, 0)


@pytest.mark.django_db
def test_lost_doubled_and_late_nudges_change_nothing(store):
    owner = owner_make()
    tasks.record_settled()
    outcomes = [outcome_make(owner) for _ in range(3)]
    asyncio.run(settle(outcomes))
    tasks.record_settled()
    tasks.record_settled()
    asyncio.run(settle(outcomes))  # a repeat of the courier whose first answer got lost
    tasks.record_settled()
    assert (RelayRequest.objects.count(), Attempt.objects.count()) == (3, 3)
    assert open_records().counts().waiting == 0


@pytest.mark.django_db
def test_a_database_that_is_down_gives_the_records_back_at_once(store, monkeypatch, caplog):
    outcomes = [outcome_make(owner_make())]
    asyncio.run(settle(outcomes))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "settled_records_write", _raise(OperationalError("password=hunter2")))
        tasks.record_settled()
    counts = open_records().counts()
    assert (counts.waiting, counts.claimed) == (1, 0)
    assert "OperationalError" in caplog.text
    assert "hunter2" not in caplog.text
    assert DeadOutcome.objects.count() == 0
    tasks.record_settled()
    assert RelayRequest.objects.count() == 1


@pytest.mark.django_db
def test_an_outage_is_told_once_and_its_end_once(store, monkeypatch, caplog):
    caplog.set_level("INFO", logger="billing.tasks")
    asyncio.run(settle([outcome_make(owner_make())]))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "settled_records_write", _raise(OperationalError()))
        for _ in range(5):
            tasks.record_settled()
    for _ in range(2):
        tasks.record_settled()
    told = [entry.getMessage() for entry in caplog.records if entry.name == "billing.tasks"]
    assert len(told) == 2
    assert "interrupted (OperationalError)" in told[0]
    assert "5" in told[1]


@pytest.mark.django_db
def test_a_run_that_finds_nothing_does_not_end_an_outage(store, monkeypatch, caplog):
    """Another worker may hold the records: an empty claim says nothing about the database."""
    outcomes = [outcome_make(owner_make())]
    asyncio.run(settle(outcomes))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "settled_records_write", _raise(OperationalError()))
        tasks.record_settled()
        open_records().acknowledge([outcomes[0].request_id])
        tasks.record_settled()
        asyncio.run(settle(outcomes))
        tasks.record_settled()
    told = [entry.getMessage() for entry in caplog.records if entry.name == "billing.tasks"]
    assert len(told) == 1


@pytest.mark.django_db
def test_unreadable_records_are_kept_apart(store):
    outcome = outcome_make(owner_make())

    async def both() -> None:
        await settle([outcome])
        await admission_port().settle([SettledRecord("strange", b"\xff\x00 no outcome")])
        await admission_port().aclose()

    asyncio.run(both())
    tasks.record_settled()
    assert RelayRequest.objects.get().pk == UUID(outcome.request_id)
    dead = DeadOutcome.objects.get()
    assert (dead.request_id, bytes(dead.payload)) == ("strange", b"\xff\x00 no outcome")
    assert dead.error_class == "UnreadableOutcome"


def hours_later(request_id: str) -> None:
    """As if the outcome had failed long ago, and its claim had run out."""
    DeadOutcome.objects.update(failed_at=Now() - datetime.timedelta(seconds=DEAD_RETRY_S + 1))
    open_records().release([request_id])


@pytest.mark.django_db
def test_a_dead_outcome_keeps_its_hold_and_is_tried_again_after_a_rest(store, monkeypatch):
    owner = owner_make()
    settlement = settlement_make(owner, 30)
    request_id = settlement.outcome.request_id

    async def settled() -> None:
        await admission_port().settle(
            [SettledRecord(request_id, settlement_encode(settlement), owner.tenant.pk, 30)]
        )
        await admission_port().aclose()

    asyncio.run(settled())
    with monkeypatch.context() as fault:
        fault.setattr(booking, "rows_insert_new", lambda _rows: 1 / 0)
        tasks.record_settled()
        assert open_records().open_amounts() == {owner.tenant.pk: 30}
        open_records().release([request_id])
        tasks.record_settled()
        assert DeadOutcome.objects.get().failures == 1, "it rests"
        hours_later(request_id)
        tasks.record_settled()
        assert DeadOutcome.objects.get().failures == 2
    hours_later(request_id)
    tasks.record_settled()
    assert RelayRequest.objects.get().cost_nano == 30
    assert DeadOutcome.objects.get().resolved_at is not None
    assert open_records().open_amounts() == {}


def test_a_store_that_is_down_ends_the_run(monkeypatch, caplog):
    monkeypatch.setattr(tasks, "open_records", _raise(StoreUnavailable("down")))
    tasks.record_settled()
    assert "StoreUnavailable" in caplog.text


def test_the_run_ends_when_its_time_is_up(monkeypatch):
    batches = []
    monkeypatch.setattr(tasks, "TIME_BUDGET_S", 0.05)
    monkeypatch.setattr(tasks, "_record_batch", lambda store: batches.append(1) or time.sleep(0.02) or True)
    tasks.record_settled()
    assert 2 <= len(batches) <= 4


# ---- the embedded mode, end to end


async def rows(count: int, within_s: float) -> float:
    began = time.monotonic()
    while await asyncio.to_thread(_count) < count:
        assert time.monotonic() - began < within_s
        await asyncio.sleep(0.005)
    return time.monotonic() - began


def _count() -> int:
    try:
        return RelayRequest.objects.count()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_embedded_a_report_becomes_a_row(memory_settings):
    owner = owner_make()

    async def live() -> float:
        courier = Courier()
        await courier.start()
        await asyncio.sleep(0.1)
        courier.report(Reported(outcome_make(owner)))
        took = await rows(1, EMBEDDED_ROW_WITHIN_S)
        await courier.aclose()
        return took

    asyncio.run(live())
    assert open_records().counts().waiting == 0
    assert "courier-nudger" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.django_db(transaction=True)
def test_embedded_closing_writes_what_was_reported_last(memory_settings):
    owner = owner_make()

    async def live() -> None:
        courier = Courier()
        await courier.start()
        for _ in range(700):
            courier.report(Reported(outcome_make(owner)))
        await courier.aclose()

    asyncio.run(live())
    assert RelayRequest.objects.count() == 700


@pytest.mark.django_db(transaction=True)
def test_embedded_never_writes_on_the_loop_thread(memory_settings, monkeypatch):
    seen = []
    write = tasks.settled_records_write
    monkeypatch.setattr(
        tasks,
        "settled_records_write",
        lambda records: seen.append(threading.current_thread().name) or write(records),
    )
    owner = owner_make()

    async def live() -> None:
        courier = Courier()
        await courier.start()
        courier.report(Reported(outcome_make(owner)))
        await courier.aclose()

    asyncio.run(live())
    assert seen == ["courier-nudger"]
    assert RelayRequest.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_redis_a_report_becomes_a_row_once_a_worker_runs(redis_settings, set_eager):
    """The worker is this test; the nudge is only counted."""
    owner, nudges = owner_make(), []

    async def live() -> None:
        courier = Courier(nudger=Nudger(interval_s=0.2, nudge=nudges.append))
        await courier.start()
        for _ in range(30):
            courier.report(Reported(outcome_make(owner)))
        await courier.aclose()
        await admission_port().aclose()

    asyncio.run(live())
    assert len(nudges) >= 1
    tasks.record_settled()
    assert RelayRequest.objects.count() == 30


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lasts", ["hiccup", "outage"])
def test_embedded_a_stop_soon_after_a_database_outage_loses_nothing(
    memory_settings, monkeypatch, caplog, settings, lasts
):
    """A hiccup is over when the process ends; an outage is not, so the records wait in the spool."""
    owner, write = owner_make(), tasks.settled_records_write
    failing = threading.Event()

    def away(records):
        failing.set()
        raise OperationalError("password=hunter2")

    monkeypatch.setattr(tasks, "settled_records_write", away)

    async def live() -> None:
        courier = Courier()
        await courier.start()
        for _ in range(3):
            courier.report(Reported(outcome_make(owner)))
        await asyncio.to_thread(failing.wait, 5)
        if lasts == "hiccup":
            monkeypatch.setattr(tasks, "settled_records_write", write)
        await courier.aclose()

    asyncio.run(live())
    spools = list(settings.DATA_DIR.glob("*.spool"))
    if lasts == "hiccup":
        assert RelayRequest.objects.count() == 3
        assert not spools
        return
    assert RelayRequest.objects.count() == 0
    assert len(spools) == 1
    assert "3 outcomes were not recorded" in caplog.text
    assert "hunter2" not in caplog.text

    admission_forget()
    monkeypatch.setattr(tasks, "settled_records_write", write)

    async def next_life() -> None:
        courier = Courier()
        await courier.start()
        await rows(3, EMBEDDED_ROW_WITHIN_S)
        await courier.aclose()

    asyncio.run(next_life())
    assert not list(settings.DATA_DIR.glob("*.spool"))


@pytest.mark.django_db(transaction=True)
def test_redis_away_at_the_stop_what_it_did_not_take_is_recorded_by_the_next_start(redis_settings, settings):
    owner = owner_make()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    admission_forget()

    async def live(outcomes: int) -> None:
        courier = Courier(nudger=Nudger(interval_s=0.2, nudge=lambda task: None, first=tasks.record_spooled))
        await courier.start()
        for _ in range(outcomes):
            courier.report(Reported(outcome_make(owner)))
        await courier.aclose(timeout_s=0.5)
        await admission_port().aclose()

    asyncio.run(live(2))
    assert len(list(settings.DATA_DIR.glob("*.spool"))) == 1
    assert RelayRequest.objects.count() == 0
    asyncio.run(live(0))
    assert RelayRequest.objects.count() == 2
    assert not list(settings.DATA_DIR.glob("*.spool"))


def _raise(error: Exception):
    def call(*_args):
        raise error

    return call
