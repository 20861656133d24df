"""What the gateway needs is away for a while: streams go on, nobody is blamed, and each request is booked once."""

import asyncio
import contextlib
import time

import pytest

from tests.chaos.books import booked_once
from tests.chaos.load import LONG, Client, Trickle, all_over, until

DATABASE_AWAY_S = 180.0
DATABASE_HANGS_S = 60.0
STORE_AWAY_S = 45.0
"""Longer than an epoch lives without heartbeats."""
TAKEN_FOR_DEAD_S = 80.0
"""Until a store that is back, and a run of reconcile, have taken for dead whom they would."""
STOPPED_S = 45.0
EXPIRED_S = 36.0
"""After so long a stop an epoch is over."""
STREAMS = 30
REFUSED_WITHIN_S = 10.0


async def running_streams(client, servers, count=STREAMS):
    streams = client.each(
        count, servers, lambda server: client.chat(server, "interval-1", stream=True, words=LONG)
    )
    await until(lambda: all(one.events >= 2 for one in streams), "streams do not run")
    return streams


async def they_go_on(streams, within_s=20.0):
    """Each gets more of its answer, and has heard of no error."""
    before = {one: one.events for one in streams}
    await until(lambda: all(one.events > before[one] for one in streams), "a stream stands still", within_s)
    assert {one.code for one in streams} == {""}
    assert not any(one.task.done() for one in streams)


async def they_leave(streams):
    for one in streams:
        one.task.cancel()
    await asyncio.wait([one.task for one in streams])


@contextlib.asynccontextmanager
async def database_stopped(cluster, postgres):
    """The server is shut down, and connections are refused."""
    await asyncio.to_thread(cluster.background.run, cluster.background.gate.shut())
    await asyncio.to_thread(postgres.stop)
    try:
        yield DATABASE_AWAY_S
        assert not postgres.is_running
    finally:
        await asyncio.to_thread(postgres.start)
        await asyncio.to_thread(cluster.background.run, cluster.background.gate.open())


@contextlib.asynccontextmanager
async def database_hangs(cluster, postgres):
    """Connections stay, new ones are taken, and nothing is ever answered."""
    await asyncio.to_thread(cluster.background.run, cluster.background.gate.hush())
    try:
        yield DATABASE_HANGS_S
    finally:
        await asyncio.to_thread(cluster.background.run, cluster.background.gate.open())


@pytest.mark.parametrize("away", [database_stopped, database_hangs])
async def test_the_database_is_away_under_load(cluster, postgres, servers, books, away):
    name = away.__name__.replace("_", "-")
    servers = servers[:2]
    background = (cluster.worker, cluster.beat)
    async with Client(name, cluster.keys[name]) as client, Client("new", cluster.keys[f"{name}-new"]) as new:
        known = client.each(4, servers, lambda server: client.chat(server, "echo-0"))
        await all_over(known)
        assert {one.status for one in known} == {200}
        streams = await running_streams(client, servers)
        async with Trickle(client, servers) as trickle:
            async with away(cluster, postgres) as seconds:
                ends_at = time.monotonic() + seconds
                while (left_s := ends_at - time.monotonic()) > 0:
                    unseen = new.each(20, servers, lambda server: new.chat(server, "echo-0"))
                    await all_over(unseen, REFUSED_WITHIN_S)
                    answers = {(one.status, one.code) for one in unseen}
                    assert answers == {(503, "authentication_unavailable")}
                    await they_go_on(streams)
                    await asyncio.sleep(min(15, left_s))
            await asyncio.sleep(3)
            unseen = new.each(8, servers, lambda server: new.chat(server, "echo-0"))
            await all_over(unseen)
            assert {one.status for one in unseen} == {200}, "their connections were still the old ones"
            await asyncio.sleep(3)
        assert set(trickle.statuses) == {200}
        assert len(trickle.sent) > seconds * 5, "that was no load"
        await they_go_on(streams)
        await they_leave(streams)
        rows = await booked_once(books, name, [one.name for one in client.sent], within_s=90)
        assert {row.state for row in rows} == {"final"}
        assert [child.process.poll() for child in background] == [None, None]
        assert (cluster.worker, cluster.beat) == background


async def test_redis_is_paused_under_load(cluster, servers, books):
    servers = servers[:2]
    async with Client("paused", cluster.keys["paused"]) as client:
        streams = await running_streams(client, servers)
        whole = client.each(4, servers, lambda server: client.chat(server, "slow-headers-20"))
        await until(lambda: len(cluster.background.reached("paused-")) == STREAMS + 4, "not all are there")
        async with Trickle(client, servers) as trickle:
            await asyncio.sleep(2)
            cluster.redis.pause()
            await asyncio.sleep(STORE_AWAY_S)
            await they_go_on(streams)
            cluster.redis.resume()
            back_at = time.monotonic()
            await until(lambda: trickle.sent[-5].status == 200, "no request is admitted", 20)
            assert time.monotonic() - back_at < 20
            await asyncio.sleep(3)
        assert set(trickle.statuses) == {200, 503}
        assert {one.code for one in trickle.sent if one.status == 503} == {"admission_unavailable"}
        await all_over(whole)
        assert {one.status for one in whole} == {200}
        await asyncio.sleep(TAKEN_FOR_DEAD_S)
        await they_go_on(streams)
        done = {one.name for one in client.sent if one.status == 200} - {one.name for one in streams}
        rows = await asyncio.to_thread(books.rows, "paused")
        assert {(row.name, row.state) for row in rows} == {(one, "final") for one in done}
        await they_leave(streams)
        names = [one.name for one in client.sent if one.status == 200]
        rows = await booked_once(books, "paused", names, within_s=90)
        assert {row.state for row in rows} == {"final"}


async def test_a_process_is_stopped_for_a_while(cluster, servers, books):
    """It is taken for dead and charged; what it knows better when it is back corrects that."""
    stopped, other = servers[2], servers[0]
    await until(lambda: not books.is_in_grace(), "nobody can be taken for dead yet", 90)
    async with Client("stopped", cluster.keys["stopped"]) as client:
        theirs = await running_streams(client, [other], 10)
        streams = await running_streams(client, [stopped])
        whole = [client.chat(stopped, "slow-headers-20") for _ in range(10)]
        await until(lambda: len(cluster.background.reached("stopped-")) == STREAMS + 20, "not all are there")
        await asyncio.sleep(4.5)  # checkpoints
        stopped.freeze()
        stopped_at = time.monotonic()
        async with Trickle(client, [other], every_s=0.5) as trickle:
            await asyncio.sleep(EXPIRED_S)
            await asyncio.to_thread(cluster.reconcile)
            await asyncio.sleep(STOPPED_S - (time.monotonic() - stopped_at))
            rows = await asyncio.to_thread(books.rows, "stopped")
            abandoned = {row.name: row for row in rows if row.state == "abandoned"}
            assert set(abandoned) == {one.name for one in (*streams, *whole)}
            stopped.thaw()
            await they_go_on(streams)
            await they_go_on(theirs)
            await all_over(whole)
        assert set(trickle.statuses) == {200}
        assert {one.status for one in whole} == {200}
        late = [client.chat(stopped, "echo-0") for _ in range(5)]
        await all_over(late)
        assert {one.status for one in late} == {200}
        assert not {one.name for one in theirs} & {row.name for row in books.rows("stopped")}
        await they_leave([*streams, *theirs])
        rows = await booked_once(books, "stopped", [one.name for one in client.sent], within_s=90)
        assert {row.state for row in rows} == {"final"}
        after = {row.name: row for row in rows}
        for name, before in abandoned.items():
            assert after[name].output > (before.output or 0), "what it learned later was not booked"
            assert after[name].cost_nano != before.cost_nano


async def test_the_store_forgets_everything_under_load(cluster, servers, books):
    """Ten seconds later it holds again what the processes hold."""
    servers = servers[:2]
    async with Client("flush", cluster.keys["flush"]) as client, Client("f2", cluster.keys["load"]) as other:
        streams = await running_streams(client, servers)
        lease = f"tenant:{books.tenant_id('flush')}"
        before = await asyncio.to_thread(books.open_amount, "flush")
        assert before > 0
        assert books.holders(lease) == STREAMS
        async with Trickle(other, servers) as trickle:
            await asyncio.to_thread(cluster.redis.flush)
            flushed_at = time.monotonic()
            await asyncio.sleep(10)
            assert await asyncio.to_thread(books.open_amount, "flush") == before
            assert books.holders(lease) == STREAMS
            assert time.monotonic() - flushed_at < 15
            await they_go_on(streams)
        assert set(trickle.statuses) == {200}
        await they_leave(streams)
        rows = await booked_once(books, "flush", [one.name for one in streams], within_s=60)
        assert {row.state for row in rows} == {"final"}
