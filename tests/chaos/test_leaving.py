"""Ten thousand clients leave while the store is asked for them; those that stay get what is theirs."""

import asyncio
import contextlib
import itertools
import random
import re
import socket
import struct
import time

import orjson
import pytest

from tests.chaos.cluster import wait_ready
from tests.chaos.slow_store import SlowStore
from tests.flows.raw_http import parse, request_bytes, unchunked

LEAVERS = 10_000
"""Clients that left when their admission had been asked for, and not yet answered."""
AT_ONCE = 500
STAYERS, POOR = 30, 10
SERVED = 500
"""Of the others, at least: the store seems away now and then, which is told with 503."""
LEAVES_WITHIN_S = 0.05
"""After its admission was asked for."""
NEEDS_TOKENS = 2_000_000
"""At 2 USD a million, more than the tenant `poor` has."""
NANO_A_TOKEN = 2_000
WITHIN_S = 250
SETTLED_WITHIN_S = 90
_NAMES = re.compile(r"(?:leaver|stayer|poor)-\d{6}")
_NEEDED = re.compile(r"up to ([\d.]+) USD is needed")


class Crowd:
    """Clients on connections of their own. key: theirs. Names are given out once."""

    def __init__(self, servers, key, numbers, word) -> None:
        self._servers, self._key, self._numbers, self._word = servers, key, numbers, word

    def name(self) -> tuple[int, str]:
        number = next(self._numbers)
        return number, f"{self._word}-{number:06d}"

    async def ask(self, name, *, stream=False, model="echo-0", **fields):
        server = random.choice(self._servers)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        said = {"role": "user", "content": f"{name} says so"}
        body = orjson.dumps({"model": model, "stream": stream, "messages": [said], **fields})
        headers = [("Authorization", f"Bearer {self._key}"), ("X-Client-Request-Id", name)]
        headers.append(("Content-Type", "application/json"))
        writer.write(request_bytes("POST", "/v1/chat/completions", *headers, body=body))
        return reader, writer

    async def hear(self, name, **fields):
        reader, writer = await self.ask(name, **fields)
        try:
            return parse(await asyncio.wait_for(reader.read(), 60))
        finally:
            writer.close()


async def leave_again_and_again(crowd, store, has_time, left):
    while has_time():
        number, name = crowd.name()
        is_asked = store.is_asked(name)
        _, writer = await crowd.ask(name, stream=number % 2 == 0, model="interval-1")
        with contextlib.suppress(TimeoutError):  # it was refused: the store was taken to be away
            await asyncio.wait_for(is_asked.wait(), 1)
        await asyncio.sleep(random.uniform(0, LEAVES_WITHIN_S))
        if number % 3 == 0:  # a reset instead of a polite end
            no_linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        writer.close()
        left.append(name)


async def stay(crowd, has_time, served, others):
    while has_time():
        number, name = crowd.name()
        answer = await crowd.hear(name, stream=number % 2 == 0)
        if answer.status == 200:
            served[name] = answer
        else:
            others.append(answer)
            await asyncio.sleep(1)  # as it was told


async def be_refused(crowd, has_time, heard):
    while has_time():
        number, name = crowd.name()
        heard[number] = await crowd.hear(name, max_tokens=NEEDS_TOKENS + number)
        await asyncio.sleep(0.05 if heard[number].status == 402 else 1)


def text_of(answer):
    if answer.header("content-type") == "application/json":
        return answer.json()["choices"][0]["message"]["content"]
    lines = unchunked(answer.body).decode().split("\n\n")
    events = [orjson.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert lines[-2] == "data: [DONE]"
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def nano(answer):
    return round(float(_NEEDED.search(answer.error["message"])[1]) * 10**9)


@pytest.fixture
async def store(cluster):
    slow, run = SlowStore(cluster.redis.url), cluster.background.run
    await asyncio.to_thread(run, slow.start())
    yield slow
    await asyncio.to_thread(run, slow.aclose())


@pytest.fixture
async def servers(cluster, store):
    """Two that reach the store slowly; everything else of the cluster is as always."""
    started = [
        cluster.programs.serve(f"slow-{name}", cluster.directory / f"data-slow-{name}", REDIS_URL=store.url)
        for name in "ab"
    ]
    for server in started:
        await asyncio.to_thread(wait_ready, server)
    yield started
    for server in started:
        await asyncio.to_thread(server.child.end)


async def nothing_is_open(books):
    ends_at = time.monotonic() + SETTLED_WITHIN_S
    while left := await asyncio.to_thread(books.left_open):
        counts = await asyncio.to_thread(books.counts)
        assert time.monotonic() < ends_at, f"{len(left)} are left: {left[:5]}, {counts}"
        await asyncio.sleep(1)


async def test_clients_leave_during_admission(cluster, store, servers, books):
    numbers = itertools.count(1)
    leavers = Crowd(servers, cluster.keys["leaving"], numbers, "leaver")
    stayers = Crowd(servers, cluster.keys["leaving"], numbers, "stayer")
    poor = Crowd(servers, cluster.keys["poor"], numbers, "poor")
    left, served, others, refused = [], {}, [], {}
    before = await poor.hear("poor-000000", max_tokens=NEEDS_TOKENS)
    assert before.status == 402
    ends_at = time.monotonic() + WITHIN_S

    def has_time():
        is_enough = len(store.given_back["leaver"]) >= LEAVERS and len(served) >= SERVED
        return not is_enough and time.monotonic() < ends_at

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(leave_again_and_again(leavers, store, has_time, left))
        for _ in range(STAYERS):
            group.create_task(stay(stayers, has_time, served, others))
        for _ in range(POOR):
            group.create_task(be_refused(poor, has_time, refused))
    await nothing_is_open(books)
    assert len(store.given_back["leaver"] & set(left)) >= LEAVERS
    given_back = set().union(*store.given_back.values())

    rows = await asyncio.to_thread(books.rows, "leaving")
    await asyncio.to_thread(books.check_ledger)
    assert all(here == there for here, there in (await asyncio.to_thread(books.balances)).values())
    by_name = {row.name: row for row in rows}
    assert len(by_name) == len(rows)
    reached = [name for name in cluster.background.reached() if _NAMES.fullmatch(name)]
    assert len(set(reached)) == len(reached), "one was asked for twice"
    assert not given_back & set(reached), "the upstream was asked for somebody who had left"
    assert not given_back & set(by_name)
    assert set(reached) <= set(by_name)

    for name, answer in served.items():
        assert text_of(answer).split()[0] == name
        assert set(_NAMES.findall(answer.body.decode())) == {name}
        row = by_name[name]
        assert (row.state, row.end_reason) == ("final", "completed")
        assert row.request_id == answer.header("x-request-id")
        assert row.cost_nano > 0
    assert {answer.error["code"] for answer in others} <= {"admission_unavailable"}
    assert len(served) >= SERVED
    assert {name for name in by_name if name.startswith("stayer")} == set(served)

    needed = {number: nano(answer) for number, answer in refused.items() if answer.status == 402}
    assert needed == {number: nano(before) + number * NANO_A_TOKEN for number in needed}
    assert {answer.status for answer in refused.values()} <= {402, 503}
    assert len(needed) >= SERVED / 5
    assert not any(name.startswith("poor") for name in reached)
