"""Open records of the in-process store as rows: what is there when the process is killed comes back."""

import asyncio
import threading
import time

import msgspec
import pytest
from django.db import OperationalError

from billing.admission import OpenState
from billing.admission import mirror as mirror_module
from billing.admission.memory import MemoryStore
from billing.admission.mirror import Mirror, MirrorFailed, mirror_start
from billing.models import OpenRecordRow
from tests.billing.asks import EPOCH, account, ask, checkpoint, settled

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lives():
    """Begins a life of the process; whatever the test left running ends with it."""
    mirrors = []

    def begin() -> tuple[MemoryStore, Mirror]:
        store = MemoryStore()
        mirrors.append(Mirror(store.mirror_source))
        mirrors[-1].start()
        return store, mirrors[-1]

    yield begin
    for mirror in mirrors:
        assert mirror.stop()
    assert "open-record-mirror" not in {thread.name for thread in threading.enumerate()}


def run(call):
    return asyncio.run(call)


def rows() -> dict[str, str]:
    return dict(OpenRecordRow.objects.values_list("request_id", "state"))


def await_rows(expected: dict[str, str]) -> float:
    """Seconds until the table looks like that."""
    began = time.monotonic()
    while rows() != expected:
        assert time.monotonic() - began < 5, rows()
        time.sleep(0.005)
    return time.monotonic() - began


async def busy(store: MemoryStore) -> None:
    await store.beat(EPOCH)
    await store.accounts_put([account(7, 100)])
    await store.admit(EPOCH, ask("running", account=7, hold=40, leases=[("t", 1)], record=b"first"))
    await store.admit(EPOCH, ask("done", account=7, hold=20))
    await store.settle([settled("done", 7, 15, b"outcome")])


def test_records_are_rows_soon_and_follow_what_happens(lives):
    store, _ = lives()
    run(busy(store))
    await_rows({"running": "running", "done": "settled"})
    run(store.settle([settled("running", 7, 30)]))
    await_rows({"running": "settled", "done": "settled"})
    store.acknowledge(["running"])
    await_rows({"done": "settled"})
    store.workers.acknowledge(["done"])
    await_rows({})


def test_within_100_ms(lives):
    """The best of ten: a busy machine may delay a thread, but not each time."""
    store, _ = lives()
    taken = []
    for number in range(10):
        run(store.settle([settled(f"r{number}")]))
        taken.append(await_rows({f"r{number}": "settled"}))
        store.acknowledge([f"r{number}"])
        await_rows({})
    assert min(taken) < 0.1


def test_a_request_that_was_over_in_between_is_never_written(lives, monkeypatch):
    monkeypatch.setattr(mirror_module, "INTERVAL_S", 0.3)
    store, mirror = lives()
    written = []
    monkeypatch.setattr(mirror_module, "_write", written.append)
    run(store.admit(EPOCH, ask("short")))
    run(store.settle([settled("short")]))
    store.acknowledge(["short"])
    mirror.stop()
    assert written == []


def test_after_a_kill_all_is_back_and_the_running_ones_are_abandoned_at_once(lives):
    store, _ = lives()
    run(busy(store))
    run(store.checkpoint(EPOCH, [checkpoint("running", 7, 50, b"so far")]))
    await_rows({"running": "running", "done": "settled"})
    while OpenRecordRow.objects.get(pk="running").payload.endswith(b"first"):
        time.sleep(0.01)

    later, _ = lives()
    assert later.open_amounts() == {7: 65}
    assert later.recompute() == {}
    assert run(later.state("running")).state is OpenState.RUNNING
    assert (later.counts().running, later.counts().waiting) == (1, 1)
    assert later.claim(10) == [settled("done", 7, 15, b"outcome")]
    assert later.claim_abandoned(10) == [("running", b"so far")]
    assert later.claim_abandoned(10) == []
    later.acknowledge(["done"], [account(7, 85, 2)])
    later.acknowledge_abandoned(["running"], [account(7, 60, 3)])
    await_rows({})
    assert later.open_amounts() == {}

    assert lives()[0].claim_abandoned(10) == []


def test_own_requests_are_not_taken_for_those_of_the_earlier_life(lives):
    store, _ = lives()
    run(busy(store))
    await_rows({"running": "running", "done": "settled"})
    later, _ = lives()
    run(later.admit(EPOCH, ask("new")))
    assert later.claim_abandoned(10) == [("running", b"first")]
    assert later.holders("t") == []


def test_an_abandoned_record_that_was_claimed_comes_back_to_the_next_life_too(lives):
    store, _ = lives()
    run(busy(store))
    await_rows({"running": "running", "done": "settled"})
    for _ in range(2):
        later, _ = lives()
        assert later.claim_abandoned(10) == [("running", b"first")]


def test_stopping_writes_what_is_left(lives):
    store, mirror = lives()
    run(busy(store))
    assert mirror.stop()
    assert rows() == {"running": "running", "done": "settled"}


def test_what_is_mirrored_need_not_be_spooled(lives):
    store, mirror = lives()
    run(busy(store))
    await_rows({"running": "running", "done": "settled"})
    deadline = time.monotonic() + 5
    while store.held():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    mirror.stop()
    run(store.settle([settled("late", 7, 1)]))
    assert store.held() == [settled("late", 7, 1)]


def test_a_database_that_is_away_delays_the_rows_and_loses_none(lives, monkeypatch, caplog):
    store, _ = lives()
    write, failures = mirror_module._write, []

    def fail(batch):
        failures.append(batch)
        raise OperationalError("hunter2")

    monkeypatch.setattr(mirror_module, "_write", fail)
    run(busy(store))
    deadline = time.monotonic() + 5
    while len(failures) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [one.request_id for one in store.held()] == ["done"]
    store.acknowledge(["done"])
    run(store.admit(EPOCH, ask("more")))
    monkeypatch.setattr(mirror_module, "_write", write)
    await_rows({"running": "running", "more": "running"})
    assert "hunter2" not in caplog.text
    assert "OperationalError" in caplog.text
    assert caplog.text.count("not mirrored") == 1


def test_a_write_that_failed_after_all_was_written_leaves_no_row_behind(lives, monkeypatch):
    store, _ = lives()
    write, done = mirror_module._write, threading.Event()

    def half(batch):
        write(batch)
        done.set()
        raise OperationalError("the answer got lost")

    monkeypatch.setattr(mirror_module, "_write", half)
    run(store.settle([settled("r")]))
    assert done.wait(5)
    store.acknowledge(["r"])
    monkeypatch.setattr(mirror_module, "_write", write)
    await_rows({})


def test_a_row_that_cannot_be_read_is_told_and_kept(lives, caplog):
    OpenRecordRow.objects.create(request_id="odd", state="running", epoch="e", payload=b"\xff hunter2")
    store, _ = lives()
    assert store.claim_abandoned(10) == []
    assert "odd" in caplog.text
    assert "hunter2" not in caplog.text
    assert rows() == {"odd": "running"}


def test_rows_that_cannot_be_loaded_stop_the_start(monkeypatch):
    def fail(rows):
        raise OperationalError("hunter2")

    monkeypatch.setattr(mirror_module, "_records", fail)
    mirror = Mirror(MemoryStore().mirror_source)
    with pytest.raises(MirrorFailed, match="OperationalError"):
        mirror.start()
    assert mirror.stop()


def test_rows_that_are_read_too_late_change_nothing(monkeypatch):
    OpenRecordRow.objects.create(
        request_id="late", state="running", epoch="e", payload=msgspec.msgpack.encode((7, 40, b"record"))
    )
    records, is_given_up = mirror_module._records, threading.Event()

    def hang(rows):
        assert is_given_up.wait(10)
        return records(rows)

    monkeypatch.setattr(mirror_module, "_records", hang)
    monkeypatch.setattr(mirror_module, "START_TIMEOUT_S", 0.05)
    store = MemoryStore()
    mirror = Mirror(store.mirror_source)
    with pytest.raises(MirrorFailed, match="timeout"):
        mirror.start()
    is_given_up.set()
    assert mirror.stop()
    assert store.claim_abandoned(10) == []
    assert rows() == {"late": "running"}


def test_the_process_s_own_store_is_mirrored_and_redis_needs_none(memory_settings, settings):
    mirror = mirror_start()
    assert mirror.stop()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert mirror_start() is None


def test_thousands_of_changes_at_once(lives):
    store, _ = lives()

    async def many() -> None:
        for number in range(3000):
            await store.admit(EPOCH, ask(f"r{number:04}"))

    run(many())
    await_rows({f"r{number:04}": "running" for number in range(3000)})
    store.withdraw("r0000")
    run(store.settle([settled(f"r{number:04}") for number in range(1, 3000)]))
    store.acknowledge([f"r{number:04}" for number in range(1, 2999)])
    await_rows({"r2999": "settled"})
