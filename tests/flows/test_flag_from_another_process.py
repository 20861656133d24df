"""A flag saved in the admin of one process is obeyed by the worker of another within a second."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection

from gateway.config import POLL_S

pytestmark = pytest.mark.slow

WITHIN_S = 1.0
ROOT = Path(__file__).resolve().parents[2]

OTHER_PROCESS = """
import os, sys, time
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]  # the test's database
django.setup()
from django.contrib.auth.models import User
from django.test import Client
from channels_admin.models import RuntimeFlag
user = User.objects.create(username="other-process", is_staff=True, is_superuser=True)
client = Client(SERVER_NAME="localhost")
client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
print("ready", flush=True)
for line in sys.stdin:
    name, value = line.split()
    row = RuntimeFlag.objects.get(name=name)
    answer = client.post(f"/admin/channels_admin/runtimeflag/{row.pk}/change/", {"console_value": value})
    print(answer.status_code, time.time(), os.getpid(), flush=True)
"""


class OtherConsole:
    """A process of its own whose console saves flags."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def line(self) -> str:
        return self._process.stdout.readline().strip()

    def save(self, name: str, value: object) -> float:
        """Returns when it was saved, on the machine's clock."""
        self._process.stdin.write(f"{name} {value}\n")
        self._process.stdin.flush()
        status, saved_at, pid = self.line().split()
        assert status == "302"
        assert int(pid) != os.getpid()
        return float(saved_at)


@pytest.fixture
async def other_console(gateway, tmp_path):
    """Nothing here may block the loop: the gateway would think itself overloaded."""
    name = str(connection.settings_dict["NAME"])
    process = await asyncio.to_thread(_start, name, tmp_path)
    console = OtherConsole(process)
    assert await asyncio.to_thread(console.line) == "ready"
    yield console
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, 10) == 0
    process.stdout.close()


def _start(database: str, data_dir: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, database],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings", "DATA_DIR": str(data_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def attempts_of_a_failing_request(gateway):
    """How many channels a request tries; 409 says nothing about a channel's health."""
    before = len(gateway.simulator.requests)
    heard = await gateway.chat("status-409")
    assert heard.status == 409, heard.body
    return len(gateway.simulator.requests) - before


async def test_a_flag_is_obeyed_within_a_second(gateway, other_console):
    for _ in range(3):
        await gateway.add_channel(gateway.simulator.base_url)
    assert await attempts_of_a_failing_request(gateway) == 3
    took = []
    for value in (0, 1, 2):
        saved_at = await asyncio.to_thread(other_console.save, "RETRY_TIMES", value)
        while await attempts_of_a_failing_request(gateway) != value + 1:
            assert time.time() - saved_at < WITHIN_S, f"RETRY_TIMES={value} is not obeyed"
            await asyncio.sleep(0.02)
        took.append(time.time() - saved_at)
    assert max(took) < WITHIN_S
    assert POLL_S < WITHIN_S / 2
