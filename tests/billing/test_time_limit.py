"""The one timer of the store's exchanges: each has its time, and nothing is left behind."""

import asyncio
import time

import pytest

from billing.admission.redis.time_limit import TimeLimit

LIMIT_S = 0.05


@pytest.fixture
def limit():
    one = TimeLimit(LIMIT_S)
    yield one
    one.close()


async def exchange(limit: TimeLimit, seconds: float) -> None:
    async with asyncio.timeout(None) as scope:
        limit.watch(lambda: scope.reschedule(0))
        try:
            await asyncio.sleep(seconds)
        finally:
            limit.release()


async def test_an_exchange_that_takes_too_long_ends_with_a_timeout(limit):
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await exchange(limit, 5)
    assert LIMIT_S <= time.monotonic() - began < 1


async def test_each_exchange_has_its_whole_time(limit):
    """The timer of the first fires in the middle of a later one."""
    for _ in range(6):
        await exchange(limit, LIMIT_S * 0.4)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await exchange(limit, 5)
    assert time.monotonic() - began >= LIMIT_S * 0.99


async def test_between_exchanges_nothing_ends(limit):
    await exchange(limit, 0)
    await asyncio.sleep(LIMIT_S * 2)
    await exchange(limit, LIMIT_S * 0.5)


async def test_a_loop_that_stood_still_forgives_once(limit):
    began = time.monotonic()
    asyncio.get_running_loop().call_soon(time.sleep, LIMIT_S * 3)
    await exchange(limit, LIMIT_S * 3.5)
    asyncio.get_running_loop().call_soon(time.sleep, LIMIT_S * 3)
    with pytest.raises(TimeoutError):
        await exchange(limit, 5)
    assert time.monotonic() - began < 1


async def test_the_cancellation_of_others_stays_theirs(limit):
    task = asyncio.get_running_loop().create_task(exchange(limit, 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closed_it_leaves_no_timer(limit):
    await exchange(limit, 0)
    limit.close()
    assert limit._timer is None
    await asyncio.sleep(LIMIT_S * 1.5)
    assert limit._timer is None
