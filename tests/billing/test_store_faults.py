"""The Redis store when the server pauses, dies or forgets, and when callers give up."""

import asyncio
import contextlib
import random
import time

import pytest

from billing.admission import StoreUnavailable
from billing.admission.open_record import Admitted
from tests.billing.asks import EPOCH, account, ask, checkpoint, lease_asks, restore, settled

ADMISSIONS = 10_000
ROUNDS = 20


async def eventually(check, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not await check():
            await asyncio.sleep(0.02)


async def no_record_runs(lane) -> bool:
    with contextlib.suppress(StoreUnavailable):
        return lane.records.counts().running == 1  # the one that every test keeps
    return False


@pytest.fixture
async def kept(own_lane):
    """A store with one request that must not be touched."""
    await own_lane.port.beat(EPOCH)
    await own_lane.port.accounts_put([account(7, 10**12)])
    await own_lane.port.admit(EPOCH, ask("kept", account=7, hold=5, leases=[("t", 10**6)], record=b"kept"))
    return own_lane


async def nothing_else_is_left(lane) -> None:
    await eventually(lambda: no_record_runs(lane))
    assert lane.records.open_amounts() == {7: 5}
    assert lane.records.recompute() == {}
    assert lane.records.holders("t") == ["kept"]
    assert {key for key in lane.left() if key.startswith(("rec:", "lease:"))} == {"rec:kept", "lease:t"}


async def own_answer(lane, number: int) -> None:
    """A reply that belongs to somebody else would show the wrong record."""
    with contextlib.suppress(StoreUnavailable):
        state = await lane.port.state("kept" if number % 2 else "never")
        assert (state.payload if state else None) == (b"kept" if number % 2 else None)


@pytest.mark.slow
async def test_ten_thousand_admissions_cancelled_on_their_way_leave_nothing(kept, redis_process):
    chance = random.Random(3)
    for turn in range(ROUNDS):
        calls = [
            asyncio.create_task(
                kept.port.admit(EPOCH, ask(f"{turn}:{number}", account=7, hold=9, leases=[("t", 10**6)]))
            )
            for number in range(ADMISSIONS // ROUNDS)
        ]
        others = [asyncio.create_task(own_answer(kept, number)) for number in range(20)]
        if turn % 5 == 4:
            redis_process.pause()  # longer than a batch may take: replies are lost, not only late
        for call in calls:
            if chance.random() < 0.02:
                await asyncio.sleep(0.0005)
            call.cancel()
        if turn % 5 == 4:
            await asyncio.sleep(0.3)
            redis_process.resume()
        await asyncio.gather(*others)
        for answer, number in zip(
            await asyncio.gather(*calls, return_exceptions=True), range(len(calls)), strict=True
        ):
            if isinstance(answer, Admitted):
                kept.port.withdraw(f"{turn}:{number}")
            else:
                assert isinstance(answer, asyncio.CancelledError | StoreUnavailable)
    await nothing_else_is_left(kept)


async def test_an_admission_whose_answer_got_lost_is_withdrawn(kept, redis_process):
    redis_process.pause()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await kept.port.admit(EPOCH, ask("r", account=7, hold=9, leases=[("t", 10**6)]))
    assert time.monotonic() - began < 0.5
    redis_process.resume()
    await nothing_else_is_left(kept)


async def test_an_admission_that_arrives_after_its_withdrawal_takes_nothing(kept):
    """The last words of a connection that was given up."""
    sent = []
    call = kept.port._task.call

    async def lost(script, *arguments):
        sent.append((script, arguments))
        raise StoreUnavailable("TimeoutError")

    kept.port._task.call = lost
    with pytest.raises(StoreUnavailable):
        await kept.port.admit(EPOCH, ask("r", account=7, hold=9, leases=[("t", 10**6)]))
    kept.port._task.call = call
    await kept.port.state("any")  # behind the withdrawal
    ((script, arguments),) = sent
    await call(script, *arguments)
    await nothing_else_is_left(kept)
    assert isinstance(await kept.port.admit(EPOCH, ask("r", account=7, hold=9)), Admitted)


async def test_a_withdrawal_of_an_earlier_try_spares_the_later_one(kept, redis_process):
    redis_process.pause()
    with pytest.raises(StoreUnavailable):
        await kept.port.admit(EPOCH, ask("r", account=7, hold=9))
    redis_process.resume()
    assert isinstance(await kept.port.admit(EPOCH, ask("r", account=7, hold=9)), Admitted)
    await kept.port.state("any")
    assert (await kept.port.state("r")) is not None
    assert kept.records.open_amounts() == {7: 14}


async def test_a_lease_whose_caller_gave_up_is_given_back(kept):
    call = asyncio.create_task(kept.port.lease("kept", "2", lease_asks([("c", 1)])))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await kept.port.state("any")
    assert kept.records.holders("c") == []


async def test_while_the_store_is_away_everybody_knows_at_once(kept, redis_process):
    redis_process.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await kept.port.admit(EPOCH, ask("r", account=7, hold=9))
    began = time.monotonic()
    refused = 0
    for number in range(200):
        with contextlib.suppress(StoreUnavailable):
            await kept.port.admit(EPOCH, ask(f"r{number}"))
            continue
        refused += 1
    assert refused == 200
    assert time.monotonic() - began < 0.5


async def test_what_was_queued_reaches_a_store_that_comes_back(kept, redis_process):
    await kept.port.admit(EPOCH, ask("r", account=7, hold=9, leases=[("t", 10**6)]))
    redis_process.kill()
    kept.port.withdraw("r")
    await asyncio.sleep(0.5)
    redis_process.start()
    await nothing_else_is_left(kept)


async def test_a_server_that_restarted_knows_records_but_no_scripts(kept, redis_process):
    before = await kept.port.beat(EPOCH)
    redis_process.kill()
    redis_process.start()
    with contextlib.suppress(StoreUnavailable):
        await kept.port.state("any")  # the connection of before
    assert await kept.port.beat(EPOCH) == before
    assert (await kept.port.state("kept")).payload == b"kept"
    assert isinstance(await kept.port.admit(EPOCH, ask("r", account=7, hold=9)), Admitted)


async def test_a_server_that_forgot_everything_gets_it_again(kept, redis_process):
    before = await kept.port.beat(EPOCH)
    redis_process.kill()
    for path in (redis_process._directory / "appendonlydir").iterdir():
        path.unlink()
    redis_process.start()
    with contextlib.suppress(StoreUnavailable):
        await kept.port.state("any")
    after = await kept.port.beat(EPOCH)
    assert after.was_lost
    assert after.boot_id != before.boot_id
    await kept.port.accounts_put([account(7, 100)])
    await kept.port.restore(EPOCH, [restore("kept", 7, 5, b"kept", leases=["t"])])
    assert await kept.port.checkpoint(EPOCH, [checkpoint("kept", 7, 6)]) == frozenset()
    await kept.port.settle([settled("kept", 7, 6)])
    assert kept.records.claim(10) == [settled("kept", 7, 6)]
    assert kept.records.open_amounts() == {7: 6}


async def test_a_loop_that_stood_still_itself_does_not_take_the_store_for_dead(kept):
    for _ in range(4):
        call = asyncio.create_task(kept.port.state("kept"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        time.sleep(0.3)
        assert (await call).payload == b"kept"
