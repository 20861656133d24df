"""The courier: batches, failures, closing, and nothing left behind."""

import asyncio
import datetime
import threading
import time
from decimal import Decimal

import pytest

from billing.admission import StoreUnavailable
from billing.admission.memory import MemoryStore
from billing.core.price_book import PriceBook
from billing.core.prices import PriceParts, PriceRow
from billing.courier import BATCH_MAX, Courier
from billing.nudger import Nudger
from billing.outcome_codec import outcome_decode, settlement_decode
from billing.spool import spool_recover
from billing.terms import Terms
from billing.valuation import Reported
from relay.core.estimate import Evidence
from tests.factories.billing import attempt_make, outcome_make

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class FakePort(MemoryStore):
    """Counts batches; refuses while `down`, in one of the two ways a store can."""

    def __init__(self):
        super().__init__()
        self.batches: list[list[str]] = []
        self.moments: list[float] = []
        self.down = False
        self.applies_before_failing = False
        self.error: Exception = StoreUnavailable("down")
        self.tries = 0

    async def settle(self, records):
        self.tries += 1
        if self.down and not self.applies_before_failing:
            raise self.error
        await super().settle(records)
        self.batches.append([record.request_id for record in records])
        self.moments.append(time.monotonic())
        if self.down:
            raise self.error


class FakeNudges:
    def __init__(self):
        self.moments: list[float] = []
        self.threads: set[str] = set()
        self.error: Exception | None = None

    def __call__(self, task: str) -> None:
        self.moments.append(time.monotonic())
        self.threads.add(threading.current_thread().name)
        if self.error:
            raise self.error


@pytest.fixture
def port():
    return FakePort()


@pytest.fixture
def nudges():
    return FakeNudges()


@pytest.fixture
async def courier(port, nudges):
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges), queue_bound=100)
    await courier.start()
    yield courier
    await courier.aclose(timeout_s=2)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not [task for task in left if task.get_name() == "courier"]
    assert "courier-nudger" not in {thread.name for thread in threading.enumerate()}


def ids(records):
    return {record.request_id for record in records}


async def settled(port: FakePort, count: int) -> None:
    async with asyncio.timeout(5):
        while sum(map(len, port.batches)) < count:
            await asyncio.sleep(0.005)


async def test_a_report_reaches_the_store_at_once_and_whole(courier, port):
    outcome = outcome_make()
    began = time.monotonic()
    courier.report(Reported(outcome))
    await settled(port, 1)
    assert time.monotonic() - began < 0.3
    state = await port.state(outcome.request_id)
    assert outcome_decode(state.payload) == outcome
    assert courier.pending == 0


async def test_at_most_one_batch_every_50_ms(courier, port):
    for _ in range(60):
        courier.report(Reported(outcome_make()))
        await asyncio.sleep(0.004)
    await settled(port, 60)
    gaps = [later - earlier for earlier, later in zip(port.moments, port.moments[1:], strict=False)]
    assert len(port.batches) > 2
    assert min(gaps) >= 0.045


async def test_a_batch_is_bounded(courier, port):
    outcomes = [outcome_make() for _ in range(1100)]
    for outcome in outcomes:
        courier.report(Reported(outcome))
    await settled(port, 1100)
    assert [len(batch) for batch in port.batches] == [500, 500, 100]
    assert [name for batch in port.batches for name in batch] == [item.request_id for item in outcomes]


async def test_nudges_come_from_one_other_thread_and_at_most_5_a_second(courier, port, nudges):
    began = time.monotonic()
    while time.monotonic() - began < 1:
        courier.report(Reported(outcome_make()))
        await asyncio.sleep(0.01)
    assert 2 <= len(nudges.moments) <= 6
    assert nudges.threads == {"courier-nudger"}
    gaps = [later - earlier for earlier, later in zip(nudges.moments, nudges.moments[1:], strict=False)]
    assert min(gaps) >= 0.19


@pytest.mark.parametrize(
    "error", [StoreUnavailable("down"), RuntimeError("surprise")], ids=["down", "surprise"]
)
@pytest.mark.parametrize("applies", [False, True], ids=["refused", "answer lost"])
async def test_a_store_that_fails_loses_nothing(courier, port, caplog, error, applies):
    port.down, port.applies_before_failing, port.error = True, applies, error
    first = [outcome_make() for _ in range(3)]
    for outcome in first:
        courier.report(Reported(outcome))
    await asyncio.sleep(0.3)
    second = outcome_make()
    courier.report(Reported(second))
    await asyncio.sleep(0.1)
    assert courier.pending == 4
    assert port.tries < 8
    port.down = False
    async with asyncio.timeout(5):
        while courier.pending:
            await asyncio.sleep(0.01)
    assert {item.request_id for item in port.claim(100)} == {item.request_id for item in [*first, second]}
    warnings = [entry.getMessage() for entry in caplog.records]
    assert len([text for text in warnings if "took no batch" in text]) == 1
    assert len([text for text in warnings if "is back" in text]) == 1
    assert "surprise" not in caplog.text


async def test_full_at_four_fifths_of_its_bound_and_never_dropping(courier, port):
    port.down = True
    for _ in range(79):
        courier.report(Reported(outcome_make()))
    assert not courier.is_full
    courier.report(Reported(outcome_make()))
    assert courier.is_full
    for _ in range(40):
        courier.report(Reported(outcome_make()))
    assert courier.pending == 120
    port.down = False
    async with asyncio.timeout(5):
        while courier.pending:
            await asyncio.sleep(0.01)
    assert not courier.is_full
    assert port.counts().waiting == 120


async def test_pending_counts_the_batch_that_is_on_its_way(courier, port):
    gate = asyncio.Event()
    settle = port.settle

    async def slow(records):
        await gate.wait()
        await settle(records)

    port.settle = slow
    courier.report(Reported(outcome_make()))
    await asyncio.sleep(0.02)
    assert courier.pending == 1
    gate.set()


async def test_closing_flushes_and_nudges_a_last_time(port, nudges):
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    await asyncio.sleep(0.02)
    for _ in range(1200):
        courier.report(Reported(outcome_make()))
    await courier.aclose()
    assert sum(map(len, port.batches)) == 1200
    assert nudges.moments[-1] > port.moments[-1]
    assert courier.pending == 0


async def test_closing_a_courier_whose_store_is_down_is_bounded_and_tells(port, nudges, caplog):
    port.down = True
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    courier.report(Reported(outcome_make()))
    began = time.monotonic()
    await courier.aclose(timeout_s=0.5)
    assert time.monotonic() - began < 1.5
    assert courier.pending == 1
    assert "1 outcomes that the store did not take" in caplog.text
    assert "1 outcomes were not recorded" in caplog.text


async def test_what_nobody_took_is_spooled_queue_and_batch_alike(port, nudges, settings):
    port.down = True
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    outcomes = [outcome_make() for _ in range(BATCH_MAX + 1)]
    for outcome in outcomes:
        courier.report(Reported(outcome))
    await courier.aclose(timeout_s=0.3)
    spooled = []
    spool_recover(settings.DATA_DIR, lambda records: spooled.extend(records) or ids(records))
    assert [outcome_decode(record.payload) for record in spooled] == outcomes


async def test_what_is_spooled_in_the_last_moment_is_estimated_by_its_size(
    port, nudges, settings, monkeypatch
):
    """Whoever ends a process does not wait until tokens of thousands of answers are counted."""
    monkeypatch.setattr("billing.courier.BATCH_MAX", 1)
    port.down = True
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    row = PriceRow(id=1, model="m", group="", effective_from=START, parts=PriceParts(output=Decimal(2)))
    terms = Terms(price=row, multiplier=None, book=PriceBook(), admitted_at=START)
    outcome = outcome_make(usage=None, attempts=(attempt_make(usage=None),))
    for _ in range(3):
        courier.report(Reported(outcome, Evidence(received="word " * 30, received_size=150), terms))
    async with asyncio.timeout(20):
        while not courier._batch:  # the first is counted, which loads the vocabulary
            await asyncio.sleep(0.01)
    await courier.aclose(timeout_s=0.3)
    spooled = []
    spool_recover(settings.DATA_DIR, lambda records: spooled.extend(records) or ids(records))
    methods = [settlement_decode(record.payload).usage_method for record in spooled]
    assert methods == ["o200k", "bytes", "bytes"]
    assert [record.amount_nano for record in spooled][1:] == [50 * 2_000] * 2


async def test_a_spool_that_cannot_be_written_is_told_with_the_number(port, nudges, settings, caplog):
    port.down = True
    (settings.DATA_DIR / "file").touch()
    settings.DATA_DIR = settings.DATA_DIR / "file"
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    courier.report(Reported(outcome_make()))
    await courier.aclose(timeout_s=0.3)
    assert "1 outcomes are lost" in caplog.text


async def test_closing_while_the_store_comes_back_delivers(port, nudges):
    port.down = True
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    courier.report(Reported(outcome_make()))
    await asyncio.sleep(0.05)
    asyncio.get_running_loop().call_later(0.2, setattr, port, "down", False)
    await courier.aclose(timeout_s=3)
    assert courier.pending == 0


async def test_closing_does_not_wait_for_a_broker_that_hangs(port, caplog):
    release = threading.Event()
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=lambda task: release.wait(5)))
    await courier.start()
    courier.report(Reported(outcome_make()))
    began = time.monotonic()
    await courier.aclose(timeout_s=0.5)
    assert time.monotonic() - began < 2
    assert "hangs" in caplog.text
    assert len(port.batches) == 1
    release.set()
    await asyncio.sleep(0.05)


async def test_a_failing_broker_is_logged_by_class_and_the_thread_lives_on(courier, port, nudges, caplog):
    nudges.error = ConnectionError("redis://user:password@host")
    courier.report(Reported(outcome_make()))
    await asyncio.sleep(0.3)
    nudges.error = None
    courier.report(Reported(outcome_make()))
    count = len(nudges.moments)
    await asyncio.sleep(0.3)
    assert len(nudges.moments) > count
    assert "ConnectionError" in caplog.text
    assert "password" not in caplog.text


async def test_whoever_is_told_of_settlements_cannot_end_the_courier(port, nudges, caplog):
    def fail(_records):
        raise ZeroDivisionError("hunter2")

    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges), on_settled=fail)
    await courier.start()
    for _ in range(2):
        courier.report(Reported(outcome_make()))
        async with asyncio.timeout(5):
            while courier.pending:
                await asyncio.sleep(0.01)
    await courier.aclose()
    assert [len(batch) for batch in port.batches] == [1, 1]
    assert "ZeroDivisionError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_report_after_closing_is_kept_and_told(port, nudges, caplog):
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.start()
    await courier.aclose()
    courier.report(Reported(outcome_make()))
    assert courier.pending == 1
    assert "after the courier began to close" in caplog.text


async def test_closing_a_courier_that_never_started(port, nudges):
    courier = Courier(port=port, nudger=Nudger(interval_s=0.2, nudge=nudges))
    await courier.aclose()


async def test_a_start_nudges_for_what_an_earlier_life_left(courier, nudges):
    await asyncio.sleep(0.05)
    assert len(nudges.moments) == 1


async def test_a_report_takes_less_than_10_microseconds(courier):
    outcomes = [outcome_make() for _ in range(2000)]
    best = min(_time_reports(courier, outcomes[start : start + 100]) for start in range(0, 2000, 100))
    assert best / 100 < 10e-6


def _time_reports(courier, outcomes) -> float:
    began = time.perf_counter()
    for outcome in outcomes:
        courier.report(Reported(outcome))
    return time.perf_counter() - began
