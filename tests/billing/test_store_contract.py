"""What both admission stores promise about settled records. Redis runs where a server answers."""

import asyncio
import threading
import time

import pytest

from billing.admission import OpenState, SettledCounts, SettledRecord, StoreUnavailable
from billing.admission.memory import MemoryStore
from billing.admission.redis import RedisAdmissionPort, RedisOpenRecords
from billing.admission.store import CLAIM_SECONDS


def record(name: str, payload: bytes = b"payload") -> SettledRecord:
    return SettledRecord(name, payload)


def ids(records: list[SettledRecord]) -> list[str]:
    return [item.request_id for item in records]


async def test_settled_records_are_claimed_oldest_first_and_whole(lane):
    for name in ("c", "a", "b"):
        await lane.port.settle([record(name, name.encode() * 3 + b"\x00\xff")])
        lane.later(1)
    assert lane.records.claim(2) == [record("c", b"ccc\x00\xff"), record("a", b"aaa\x00\xff")]
    assert ids(lane.records.claim(2)) == ["b"]
    assert lane.records.claim(2) == []


async def test_claimed_records_are_hidden_until_the_claim_runs_out(lane):
    await lane.port.settle([record("a")])
    assert ids(lane.records.claim(10)) == ["a"]
    lane.later(CLAIM_SECONDS - 1)
    assert lane.records.claim(10) == []
    lane.later(1.1)
    assert ids(lane.records.claim(10)) == ["a"]


async def test_records_that_keep_failing_do_not_hold_up_the_others(lane):
    await lane.port.settle([record("bad")])
    lane.records.claim(1)
    lane.later(CLAIM_SECONDS - 5)
    await lane.port.settle([record("good")])
    lane.later(6)
    assert ids(lane.records.claim(1)) == ["good"]
    assert ids(lane.records.claim(1)) == ["bad"]


async def test_acknowledged_records_are_gone(lane):
    await lane.port.settle([record("a"), record("b")])
    lane.records.claim(10)
    lane.records.acknowledge(["a"])
    assert await lane.port.state("a") is None
    lane.later(CLAIM_SECONDS + 1)
    assert ids(lane.records.claim(10)) == ["b"]


async def test_acknowledging_twice_or_what_is_unknown_does_nothing(lane):
    await lane.port.settle([record("a"), record("b")])
    lane.records.acknowledge(["a", "never"])
    lane.records.acknowledge(["a"])
    lane.records.acknowledge([])
    assert ids(lane.records.claim(10)) == ["b"]


async def test_an_unclaimed_record_can_be_acknowledged(lane):
    await lane.port.settle([record("a")])
    lane.records.acknowledge(["a"])
    assert lane.records.claim(10) == []
    assert lane.records.counts().waiting == 0


async def test_settling_twice_keeps_one_record_and_its_place(lane):
    await lane.port.settle([record("a", b"1")])
    lane.later(1)
    await lane.port.settle([record("b")])
    lane.later(1)
    await lane.port.settle([record("a", b"2"), record("a", b"3")])
    assert lane.records.claim(10) == [record("a", b"3"), record("b")]


async def test_settling_a_claimed_record_again_keeps_the_claim(lane):
    await lane.port.settle([record("a", b"1")])
    lane.records.claim(1)
    await lane.port.settle([record("a", b"2")])
    assert lane.records.claim(10) == []
    lane.records.acknowledge(["a"])
    lane.later(CLAIM_SECONDS + 1)
    assert lane.records.claim(10) == []


async def test_settling_after_the_acknowledgement_comes_back_once(lane):
    """A repeat whose first answer was lost: the request's row tells the worker that it is done."""
    await lane.port.settle([record("a")])
    lane.records.claim(1)
    lane.records.acknowledge(["a"])
    await lane.port.settle([record("a")])
    assert ids(lane.records.claim(10)) == ["a"]
    lane.records.acknowledge(["a"])
    lane.later(CLAIM_SECONDS + 1)
    assert lane.records.claim(10) == []


async def test_released_records_can_be_claimed_at_once_behind_those_that_wait(lane):
    await lane.port.settle([record("a", b"1")])
    lane.later(1)
    lane.records.claim(1)
    await lane.port.settle([record("b")])
    lane.later(1)
    lane.records.release(["a"])
    counts = lane.records.counts()
    assert (counts.waiting, counts.claimed) == (2, 0)
    assert lane.records.claim(10) == [record("b"), record("a", b"1")]


async def test_releasing_what_is_gone_or_unknown_brings_nothing_back(lane):
    await lane.port.settle([record("a")])
    lane.records.claim(1)
    lane.records.acknowledge(["a"])
    lane.records.release(["a", "never"])
    lane.records.release([])
    assert lane.records.claim(10) == []
    assert lane.records.counts() == SettledCounts(0, 0, 0.0)


async def test_releasing_what_waits_keeps_its_place(lane):
    await lane.port.settle([record("a")])
    lane.records.claim(1)
    lane.later(CLAIM_SECONDS + 1)
    lane.records.counts()
    await lane.port.settle([record("b")])
    lane.later(1)
    lane.records.release(["a"])
    assert ids(lane.records.claim(10)) == ["a", "b"]


async def test_held_is_all_that_would_end_with_this_process():
    store = MemoryStore()
    await store.settle([record("a"), record("b"), record("c")])
    store.acknowledge(ids(store.claim(1)))
    store.claim(1)
    assert store.held() == [record("b"), record("c")]
    assert RedisAdmissionPort("redis://127.0.0.1:1/0", "x:").held() == []


async def test_state_of_settled_claimed_and_unknown_requests(lane):
    assert await lane.port.state("a") is None
    await lane.port.settle([record("a", b"outcome")])
    for _ in range(2):
        state = await lane.port.state("a")
        assert state.state is OpenState.SETTLED
        assert state.payload == b"outcome"
        lane.records.claim(1)


async def test_counts(lane):
    assert lane.records.counts() == SettledCounts(0, 0, 0.0)
    await lane.port.settle([record("a"), record("b"), record("c")])
    lane.records.claim(1)
    lane.later(5)
    counts = lane.records.counts()
    assert (counts.waiting, counts.claimed) == (2, 1)
    assert counts.oldest_waiting_s == pytest.approx(5, abs=0.5)
    lane.later(CLAIM_SECONDS)
    assert lane.records.counts().waiting == 3
    assert lane.records.counts().claimed == 0


async def test_settling_nothing(lane):
    await lane.port.settle([])
    assert lane.records.claim(10) == []


async def test_concurrent_claims_never_share_a_record(lane):
    await lane.port.settle([record(f"{number:04d}") for number in range(400)])
    claimed: list[list[str]] = []

    def work() -> None:
        mine: list[str] = []
        while batch := lane.records.claim(7):
            mine += ids(batch)
        claimed.append(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0.01)
    everything = [name for mine in claimed for name in mine]
    assert sorted(everything) == [f"{number:04d}" for number in range(400)]


async def test_port_works_again_after_it_was_closed(lane):
    await lane.port.settle([record("a")])
    await lane.port.aclose()
    await lane.port.settle([record("b")])
    assert len(lane.records.claim(10)) == 2


async def test_redis_scripts_are_loaded_again_after_the_server_forgot_them(redis_lane):
    lane = redis_lane
    await lane.port.settle([record("a")])
    lane.records.claim(0)
    lane.client.script_flush()
    await lane.port.settle([record("b")])
    assert len(lane.records.claim(10)) == 2
    lane.client.script_flush()
    lane.records.acknowledge(["a", "b"])
    lane.client.script_flush()
    assert lane.records.counts().claimed == 0


async def test_redis_that_is_down_is_known_at_once():
    url = "redis://127.0.0.1:1/0"
    port, records = RedisAdmissionPort(url, "x:"), RedisOpenRecords(url, "x:")
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await port.settle([record("a")])
    with pytest.raises(StoreUnavailable):
        await port.state("a")
    calls = (
        lambda: records.claim(1),
        lambda: records.acknowledge(["a"]),
        lambda: records.release(["a"]),
        records.counts,
    )
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()
    assert time.monotonic() - began < 2
    await port.aclose()
    records.close()


async def test_redis_that_does_not_answer_is_known_within_a_second_or_so():
    async def silence(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    host, port_number = server.sockets[0].getsockname()
    port = RedisAdmissionPort(f"redis://{host}:{port_number}/0", "x:")
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await port.settle([record("a")])
    assert time.monotonic() - began < 1.5
    await port.aclose()
    server.close()
    await server.wait_closed()


def test_a_record_does_not_show_its_payload():
    assert "secret" not in repr(SettledRecord("a", b"secret"))
