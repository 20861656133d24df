"""What a process does when the store lost it, and what a running stream sets aside."""

import asyncio
import datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from billing.admission.memory import MemoryStore
from billing.admission.open_record import AdmissionAsk, Admitted
from billing.admission.store import Checkpoint, SettledRecord, StoreUnavailable
from billing.core.price_book import PriceBook
from billing.core.prices import PriceParts, PriceRow
from billing.terms import Terms
from gateway.admission import checkpoints
from gateway.admission.checkpoints import AHEAD_S, checkpoint_of
from gateway.admission.open_requests import OpenRequest, OpenRequests
from relay.core.usage import TokenUsage
from tests.factories.billing import outcome_make

HOLD = 5
NOW = 1_800_000_100.0
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


store_moment = [1000.0]


class Store(MemoryStore):
    """fails: how many restores are not taken. before: called when one is about to be carried out."""

    fails = 0
    before = None

    async def restore(self, epoch, records):
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("away")
        if self.before is not None:
            await self.before()
        await super().restore(epoch, records)


def terms(**usd):
    parts = PriceParts(**{name: Decimal(value) for name, value in usd.items()})
    row = PriceRow(id=1, model="m", group="", effective_from=START, parts=parts)
    return Terms(price=row, multiplier=None, book=PriceBook(), admitted_at=START)


@pytest.fixture
def store():
    return Store(now=lambda: store_moment[0])


async def begun(store):
    """A process whose only request runs, and which the store then takes for dead."""
    open_requests = OpenRequests(store)
    await open_requests._beat()
    ask = AdmissionAsk(request_id="one", account_id=0, hold_nano=HOLD, record=b"first")
    assert isinstance(await store.admit(open_requests.epoch, ask), Admitted)
    open_requests.open(OpenRequest("one", 0, HOLD, terms(), record=b"first"))
    store_moment[0] += 31
    return open_requests


async def test_what_the_store_lost_is_written_again_until_it_took_it(store):
    open_requests = await begun(store)
    was = open_requests.epoch
    store.fails = 2
    for _ in range(3):
        await open_requests._beat()
    assert open_requests.epoch != was
    assert (await store.state("one")).epoch == open_requests.epoch
    epoch = open_requests.epoch
    await open_requests._beat()
    assert open_requests.epoch == epoch, "once it is written, it is not lost any more"


async def test_a_request_that_was_written_before_its_turn_came_does_not_run_again(store):
    """Many records are written in parts: one may end, and be recorded, before its part is there."""
    open_requests = await begun(store)

    async def it_ends_and_is_written():
        open_requests.close("one")
        await store.settle([SettledRecord("one", b"outcome")])
        store.workers.acknowledge([record.request_id for record in store.workers.claim(10)])
        assert await store.state("one") is None

    store.before = it_ends_and_is_written
    await open_requests._beat()
    assert await store.state("one") is None
    assert store.workers.counts().running == 0


async def test_one_that_ends_while_it_is_written_again_is_settled_once(store):
    open_requests = await begun(store)

    async def it_ends():
        open_requests.close("one")
        await store.settle([SettledRecord("one", b"outcome")])

    store.before = it_ends
    await open_requests._beat()
    assert [record.payload for record in store.workers.claim(10)] == [b"outcome"]


async def test_a_process_keeps_its_name_when_its_epoch_changes(store):
    """Its own image slots are counted under that name: those that run must go on counting."""
    open_requests = OpenRequests(store)
    await open_requests._beat()
    name, was = open_requests.process_id, open_requests.epoch
    store_moment[0] += 31
    await open_requests._beat()
    assert open_requests.epoch != was
    assert open_requests.process_id == name


class Running:
    """received_size: bytes of text that arrived in the `age_s` since the first event, which took 4 s."""

    def __init__(self, *, received_size, age_s, usage=None, request_bytes=3_000):
        self.received_size = received_size
        self.request = SimpleNamespace(prompt_bytes=3_000)
        self._draft = outcome_make(
            usage=usage, request_bytes=request_bytes, started_at=NOW - age_s - 4, first_event_ms=4_000.0
        )

    def draft(self):
        return self._draft


@pytest.fixture(autouse=True)
def fixed_clock(monkeypatch):
    monkeypatch.setattr(checkpoints.time, "time", lambda: NOW)


def held(running, *, hold_nano=0, **usd):
    return checkpoint_of(OpenRequest("one", 7, hold_nano, terms(**usd), is_stream=True), running).hold_nano


def test_a_stream_sets_aside_what_it_costs_and_ten_seconds_more_of_the_answer():
    running = Running(received_size=300, age_s=5)
    # 1,000 tokens of prompt, 100 of answer in 5 s: 200 more in ten.
    assert held(running, input="1", output="2") == 1_000 * 1_000 + (100 + 200) * 2_000
    assert AHEAD_S == 10


def test_the_prompt_is_paid_once_however_young_the_stream_is():
    usage = TokenUsage(input=200_000, cached_input=1_000, output=1)
    running = Running(received_size=3, age_s=0.1, usage=usage)
    price = {"input": "3", "output": "15", "per_call": "0.01"}
    assert held(running, **price) == 200_000 * 3_000 + 10_000_000 + (1 + 10) * 15_000


def test_less_than_at_first_is_never_held():
    assert held(Running(received_size=3, age_s=5), hold_nano=10**9, input="1", output="2") == 10**9


def test_the_files_of_a_form_are_no_prompt():
    """A picture to be changed has megabytes: as tokens no balance would cover them."""
    running = Running(received_size=300, age_s=5, request_bytes=20_000_000)
    assert held(running, input="1") == 1_000 * 1_000


async def test_checkpoints_go_on_after_one_that_failed(store, monkeypatch, caplog):
    """Else no balance would end a stream any more, and nobody would know."""
    monkeypatch.setattr("gateway.admission.open_requests.CHECKPOINT_INTERVAL_S", 0.01)
    open_requests = OpenRequests(store)
    calls = 0
    third = asyncio.Event()

    async def progress(_requests):
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()
        raise ZeroDivisionError("a text that may quote a prompt")

    await open_requests.start(progress, lambda _one: None)
    async with asyncio.timeout(5):
        await third.wait()
    await open_requests.aclose()
    assert "ZeroDivisionError" in caplog.text
    assert "may quote" not in caplog.text


async def test_a_checkpoint_that_was_not_taken_is_sent_again_though_its_stream_stalls(store, monkeypatch):
    open_requests = await begun(store)
    progress, sent = [Checkpoint("one", 0, 9, b"second")], store.checkpoint

    async def since_the_last_call(_):
        return [progress.pop()] if progress else []

    async def away(*_):
        raise StoreUnavailable("away")

    with monkeypatch.context() as outage:
        outage.setattr(store, "checkpoint", away)
        for _ in range(2):
            await open_requests._checkpoint(since_the_last_call, str)
    await open_requests._checkpoint(since_the_last_call, str)
    assert (await store.state("one")).payload == b"second"
    assert open_requests.get("one").hold_nano == 9

    calls = []
    monkeypatch.setattr(store, "checkpoint", lambda *call: calls.append(call) or sent(*call))
    await open_requests._checkpoint(since_the_last_call, str)
    assert calls == []


async def test_a_newer_checkpoint_replaces_one_that_was_not_taken_and_an_ended_request_needs_none(
    store, monkeypatch
):
    open_requests = await begun(store)
    open_requests.open(OpenRequest("two", 0, HOLD, terms()))
    old = [Checkpoint(name, 0, 9, b"old") for name in ("one", "two")]
    calls = []

    async def refuse_the_first(_, checkpoints):
        calls.append(list(checkpoints))
        if len(calls) == 1:
            raise StoreUnavailable("away")
        return frozenset()

    async def progress_of(checkpoints):
        return checkpoints

    monkeypatch.setattr(store, "checkpoint", refuse_the_first)
    await open_requests._checkpoint(lambda _: progress_of(old), str)
    open_requests.close("two")
    new = [Checkpoint("one", 0, 10, b"new")]
    await open_requests._checkpoint(lambda _: progress_of(new), str)
    assert calls == [old, new]
