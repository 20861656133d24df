"""SIGTERM: what runs ends in order, and nothing is left behind."""

import asyncio
import signal

from tests.chaos.books import booked_once
from tests.chaos.cluster import GRACE_S
from tests.chaos.load import LONG, Client, all_over, until


async def test_a_drain_leaves_nothing(cluster, servers, books):
    leaving = servers[2]
    async with Client("drain", cluster.keys["drain"]) as client:
        endless = [client.chat(leaving, "interval-1", stream=True, words=LONG) for _ in range(40)]
        short = [client.chat(leaving, "interval-1", stream=True, words=4) for _ in range(20)]
        whole = [client.chat(leaving, "slow-headers-4") for _ in range(10)]
        await until(lambda: all(one.events for one in (*endless, *short)), "streams do not run")
        await until(lambda: len(cluster.background.reached("drain-")) == 70, "not all are there")
        leaving.child.process.send_signal(signal.SIGTERM)
        await all_over(client.sent, GRACE_S + 25)
        assert await asyncio.to_thread(leaving.child.process.wait, 30) == 0
        assert {(one.status, one.code, one.is_whole) for one in (*short, *whole)} == {(200, "", True)}
        assert {(one.status, one.code) for one in endless} == {(200, "gateway_shutdown")}
        rows = await booked_once(books, "drain", [one.name for one in client.sent], within_s=60)
        ended = {row.name: (row.state, row.end_reason) for row in rows}
        assert {ended[one.name] for one in endless} == {("final", "gateway_shutdown")}
        assert {ended[one.name] for one in (*short, *whole)} == {("final", "completed")}
        assert list(leaving.data_dir.glob("outcomes-*")) == []
        await until(
            lambda: not cluster.background.upstream.running_requests, "an upstream request is left", 10
        )


async def test_a_drain_while_redis_is_away_is_made_up_for_by_the_next_start(cluster, servers, books):
    """The outcomes wait in a file; the store's records of the process go like those of a dead one."""
    leaving = servers[3]
    async with Client("spool", cluster.keys["spool"]) as client:
        for _ in range(10):
            client.chat(leaving, "interval-1", stream=True, words=LONG)
        await until(lambda: all(one.events >= 2 for one in client.sent), "streams do not run")
        cluster.redis.pause()
        leaving.child.process.send_signal(signal.SIGTERM)
        await all_over(client.sent, GRACE_S + 25)
        assert {(one.status, one.code) for one in client.sent} == {(200, "gateway_shutdown")}
        assert await asyncio.to_thread(leaving.child.process.wait, 40) == 0
        assert len(list(leaving.data_dir.glob("outcomes-*.spool"))) == 1
        cluster.redis.resume()
        await asyncio.to_thread(cluster.restore)
        rows = await booked_once(books, "spool", [one.name for one in client.sent], within_s=150)
        assert {(row.state, row.end_reason) for row in rows} == {("final", "gateway_shutdown")}
        assert list(leaving.data_dir.glob("outcomes-*")) == []
