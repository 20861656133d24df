"""Processes that are killed outright take nothing with them: what reached the upstream is booked, once."""

import asyncio
import time

import pytest

from tests.chaos.books import booked_once
from tests.chaos.load import LONG, Client, until

STREAMS, WHOLE, BRIEF = 200, 50, 50
WITHIN_S = 60.0
CHECKPOINTED_S = 4.5
"""Two intervals of checkpoints, and some patience."""


async def test_a_serving_process_is_killed(cluster, servers, books):
    victim = servers[1]
    await until(lambda: not books.is_in_grace(), "nobody can be taken for dead yet", 90)
    async with Client("kill", cluster.keys["kill"]) as client:
        streams = [client.chat(victim, "interval-1", stream=True, words=LONG) for _ in range(STREAMS)]
        whole = [client.chat(victim, "slow-headers-50") for _ in range(WHOLE)]
        await until(lambda: all(one.events >= 3 for one in streams), "streams do not run")
        await until(lambda: len(cluster.background.reached("kill-")) == STREAMS + WHOLE, "not all are there")
        await asyncio.sleep(CHECKPOINTED_S)
        brief = [client.chat(victim, "slow-headers-1.9") for _ in range(BRIEF)]
        names = [one.name for one in (*streams, *whole, *brief)]
        await until(lambda: len(cluster.background.reached("kill-")) == len(names), "the last did not arrive")
        assert not any(one.task.done() for one in client.sent), "not all are in flight any more"
        assert books.holders(f"tenant:{books.tenant_id('kill')}") == len(names)

        killed_at = time.monotonic()
        await asyncio.to_thread(victim.kill)
        rows = await booked_once(books, "kill", names, within_s=WITHIN_S - 1)
        assert time.monotonic() - killed_at < WITHIN_S

        by_name = {row.name: row for row in rows}
        assert all(one.events for one in streams)
        for one in streams:
            row = by_name[one.name]
            assert (row.state, row.end_reason, row.is_estimated) == ("abandoned", "abandoned", True)
            assert row.request_id == one.request_id
            # The client's last seconds are not in the last checkpoint; a token is three bytes here.
            assert one.text_size / 3 / 3 < row.output <= one.text_size / 3 + 10
            assert row.cost_nano > row.output * 2_000
        for one in whole:
            assert (by_name[one.name].state, by_name[one.name].cost_nano) == ("abandoned", 0)
        for one in brief:
            assert by_name[one.name].state == ("final" if one.is_whole else "abandoned")

        await a_second_run_changes_nothing(cluster, books, "kill", names)


async def a_second_run_changes_nothing(cluster, books, tenant, names):
    before = await asyncio.to_thread(books.ledger_state)
    rows = await asyncio.to_thread(books.rows, tenant)
    await asyncio.to_thread(cluster.reconcile)
    assert await asyncio.to_thread(books.ledger_state) == before
    assert sorted(await booked_once(books, tenant, names, within_s=5)) == sorted(rows)


@pytest.fixture
async def claimed(cluster, servers, books, request):
    """A worker in the middle of a batch: claimed, and stopped on its way to the database. And all requests."""
    tenant = request.param
    async with Client(tenant, cluster.keys[tenant]) as client:
        first = client.each(4, servers[:2], lambda server: client.chat(server, "echo-0"))
        await booked_once(books, tenant, [one.name for one in first], within_s=60)
        await asyncio.to_thread(cluster.background.run, cluster.background.gate.hush())
        sent = client.each(60, servers[:2], lambda server: client.chat(server, "echo-0"))
        await until(lambda: books.counts().claimed > 0, "no batch was claimed")
        await until(lambda: all(one.task.done() for one in sent), "not all are answered")
        assert {one.status for one in client.sent} == {200}
        yield client.sent


async def all_are_booked(cluster, books, tenant, sent):
    await asyncio.to_thread(cluster.open_gates)
    await asyncio.to_thread(cluster.worker_start)
    names = [one.name for one in sent]
    rows = await booked_once(books, tenant, names, within_s=WITHIN_S)
    assert {row.state for row in rows} == {"final"}
    await a_second_run_changes_nothing(cluster, books, tenant, names)


@pytest.mark.parametrize("claimed", ["claimed"], indirect=True)
async def test_a_worker_is_killed_before_it_wrote_its_batch(cluster, books, claimed):
    """The records come back when their claim runs out."""
    await asyncio.to_thread(cluster.worker_kill)
    assert len(books.rows("claimed")) == 4
    await all_are_booked(cluster, books, "claimed", claimed)


@pytest.mark.parametrize("claimed", ["written"], indirect=True)
async def test_a_worker_is_killed_between_writing_and_telling_the_store(cluster, books, claimed):
    """Nobody is charged twice, and what the store still holds for it goes."""
    run = cluster.background.run
    await asyncio.to_thread(run, cluster.background.worker_gate.shut())
    await asyncio.to_thread(run, cluster.background.gate.open())
    await until(lambda: len(books.rows("written")) > 4, "the batch was not written")
    await asyncio.to_thread(cluster.worker_kill)
    written = len(books.rows("written")) - 4
    counts = books.counts()
    assert counts.waiting + counts.claimed == 60
    assert written > 0
    await all_are_booked(cluster, books, "written", claimed)
