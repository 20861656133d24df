"""Nothing installed, one process, killed outright: its next life books what it had running."""

import asyncio
import json
import os

import pytest

from tests.bench.processes import free_port
from tests.bench.stack import KEPT_ENVIRONMENT
from tests.chaos.background import Background
from tests.chaos.books import EmbeddedBooks, booked_once
from tests.chaos.cluster import Programs, configuration, wait_ready
from tests.chaos.load import LONG, Client, all_over, until

STREAMS = 40
WITHIN_S = 60.0


@pytest.fixture
def background():
    nobody = ("127.0.0.1", 1)
    with Background(nobody, nobody) as running:
        yield running


@pytest.fixture
def programs(processes, tmp_path):
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    (tmp_path / "data").mkdir()
    data_dir = {"DATA_DIR": str(tmp_path / "data"), "LOG_LEVEL": "WARNING", "PYTHONUNBUFFERED": "1"}
    return Programs(processes, kept | data_dir)


async def test_killed_with_streams(background, programs, tmp_path):
    data_dir, port = tmp_path / "data", free_port()
    books = EmbeddedBooks(data_dir / "sluice.sqlite3")
    file = tmp_path / "embedded.yaml"
    file.write_text(
        json.dumps(configuration(background.upstream.base_url, {"one": "sk-chaos-embedded-0123456789"}))
    )
    await asyncio.to_thread(programs.manage, "migrate", "--verbosity", "0")
    await asyncio.to_thread(programs.manage, "apply", str(file))
    server = programs.serve("embedded", data_dir, port=port)
    await asyncio.to_thread(wait_ready, server)
    async with Client("one", "sk-chaos-embedded-0123456789") as client:
        done = [client.chat(server, "echo-0") for _ in range(5)]
        await all_over(done)
        streams = [client.chat(server, "interval-1", stream=True, words=LONG) for _ in range(STREAMS)]
        whole = [client.chat(server, "slow-headers-50") for _ in range(10)]
        await until(lambda: all(one.events >= 3 for one in streams), "streams do not run")
        await until(lambda: len(background.reached("one-")) == STREAMS + 15, "not all are there")
        await asyncio.sleep(4.5)  # checkpoints
        brief = [client.chat(server, "slow-headers-1.9") for _ in range(10)]
        await until(lambda: len(background.reached("one-")) == STREAMS + 25, "not all are there")
        await asyncio.sleep(0.3)  # the mirror's twentieth of a second, on a busy machine
        await asyncio.to_thread(server.kill)
        booked_by = asyncio.get_running_loop().time() + WITHIN_S
        await all_over([*streams, *whole, *brief], may_be_cut=True)

        again = programs.serve("embedded-again", data_dir, port=port)
        await asyncio.to_thread(wait_ready, again)
        late = client.chat(again, "echo-0")
        await all_over([late])
        assert late.status == 200
        names = [one.name for one in client.sent]
        left_s = booked_by - asyncio.get_running_loop().time()
        rows = {row.name: row for row in await booked_once(books, "one", names, within_s=left_s)}
        assert {rows[one.name].state for one in (*streams, *whole)} == {"abandoned"}
        assert all(rows[one.name].cost_nano > 0 for one in streams)
        assert {rows[one.name].cost_nano for one in whole} == {0}
        assert {rows[one.name].state for one in (*done, late)} == {"final"}
