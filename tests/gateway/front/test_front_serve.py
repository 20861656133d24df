"""`manage.py serve` as a process: it drains on SIGTERM, leaves no orphans, and serves alone without Redis."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.flows.raw_http import request_bytes, unchunked

ROOT = Path(__file__).resolve().parents[3]
START_WITHIN_S = 40.0

pytestmark = pytest.mark.slow


class Served:
    """One `manage.py serve` on a port of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process, self._output = process, output
        self.port = 0

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def status(self, path: str) -> int:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=5, trust_env=False).status_code

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.output
            line = next((line for line in self.output.splitlines() if line.startswith("Serving on")), "")
            if line:
                self.port = int(line.split(":")[2].split()[0])
                try:
                    if self.status("/readyz") == 200:
                        return
                except httpx.TransportError:
                    pass
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.output}")


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    started: list[subprocess.Popen[bytes]] = []

    def serve(*arguments: str, **environment: str) -> Served:
        output = tmp_path / f"output-{len(started)}.txt"
        env = {name: value for name, value in os.environ.items() if name not in {"REDIS_URL", "DATABASE_URL"}}
        env |= {"DJANGO_SETTINGS_MODULE": "tests.flows.stub_settings", "DATA_DIR": str(tmp_path / "data")}
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", "--port", "0", *arguments],
                cwd=ROOT,
                env=env | environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return Served(process, output)

    yield serve
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def open_stream(served: Served, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request_bytes("GET", target, close=False))
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_sigterm_lets_a_running_stream_finish(serve: Serve) -> None:
    served = serve(READY_DELAY_SECONDS="1", SHUTDOWN_GRACE_SECONDS="20")
    await asyncio.to_thread(served.wait_ready)
    reader, writer = await open_stream(served, "/v1/tick?count=25&pause_ms=100")
    served.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    assert await asyncio.to_thread(served.status, "/readyz") == 503, "readiness is false at once"
    assert await asyncio.to_thread(served.status, "/v1/sync") == 200, "while requests are still served"
    await asyncio.sleep(1.2)
    with pytest.raises(httpx.ConnectError):
        await asyncio.to_thread(served.status, "/readyz")
    body = await asyncio.wait_for(reader.read(), 10)
    assert unchunked(body) == b"x" * 125
    writer.close()
    assert await asyncio.to_thread(served.process.wait, 10) == 0
    assert "wiring stopped" in served.output
    assert "Traceback" not in served.output


async def test_grace_that_is_over_stops_what_runs(serve: Serve) -> None:
    served = serve(READY_DELAY_SECONDS="0", SHUTDOWN_GRACE_SECONDS="1")
    await asyncio.to_thread(served.wait_ready)
    reader, writer = await open_stream(served, "/v1/tick?count=1000&pause_ms=100")
    started = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    body = await asyncio.wait_for(reader.read(), 10)
    assert unchunked(body).endswith(b"xstopped"), "the request was stopped and said so, not cut"
    assert 0.8 < time.monotonic() - started < 4
    writer.close()
    assert await asyncio.to_thread(served.process.wait, 10) == 0
    assert "wiring stopped" in served.output


@pytest.mark.parametrize("path", ["/v1/echo", "/admin/login/"], ids=["relay", "console"])
async def test_stalled_upload_does_not_outlast_the_grace(serve: Serve, path: str) -> None:
    served = serve(READY_DELAY_SECONDS="0", SHUTDOWN_GRACE_SECONDS="1")
    await asyncio.to_thread(served.wait_ready)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request_bytes("POST", path, ("Content-Length", "500"), close=False) + b"{")
    await asyncio.sleep(0.2)
    started = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(served.process.wait, 10) == 0
    assert 0.8 < time.monotonic() - started < 4, "neither before the grace is over nor long after"
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    assert "wiring stopped" in served.output
    assert "Traceback" not in served.output


async def test_upload_that_goes_on_is_served_while_draining(serve: Serve) -> None:
    served = serve(READY_DELAY_SECONDS="0", SHUTDOWN_GRACE_SECONDS="10")
    await asyncio.to_thread(served.wait_ready)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request_bytes("POST", "/v1/echo", ("Content-Length", "5"), close=False) + b"he")
    await asyncio.sleep(0.2)
    served.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.5)
    writer.write(b"llo")
    assert (await asyncio.wait_for(reader.read(), 5)).endswith(b"\r\n\r\nhello")
    writer.close()
    assert await asyncio.to_thread(served.process.wait, 10) == 0


async def test_foreign_hosts_log_one_short_line_each(serve: Serve) -> None:
    served = serve()
    await asyncio.to_thread(served.wait_ready)
    before = len(served.output.splitlines())
    for host in ("evil.example", "e" * 20_000, "a\tb"):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(f"GET /admin/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
    lines = served.output.splitlines()[before:]
    assert len(lines) == 3
    assert "django.security.DisallowedHost" in lines[0]
    assert "evil.example" in lines[0]
    assert all(len(line) < 320 for line in lines)


async def test_ctrl_c_ends_an_idle_server_at_once(serve: Serve) -> None:
    served = serve(READY_DELAY_SECONDS="30")
    await asyncio.to_thread(served.wait_ready)
    served.process.send_signal(signal.SIGINT)
    await asyncio.to_thread(served.process.wait, 5)
    assert "Traceback" not in served.output


async def test_second_serve_on_one_data_dir_is_refused_and_told_who_holds_it(serve: Serve) -> None:
    first = serve()
    await asyncio.to_thread(first.wait_ready)
    second = serve()
    assert await asyncio.to_thread(second.process.wait, START_WITHIN_S) != 0
    assert f"process {first.process.pid}" in second.output
    assert "REDIS_URL" in second.output
    assert "Traceback" not in second.output


async def test_lock_is_free_again_after_a_kill(serve: Serve) -> None:
    first = serve()
    await asyncio.to_thread(first.wait_ready)
    first.process.kill()
    first.process.wait()
    await asyncio.to_thread(serve().wait_ready)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--workers", "2"], "REDIS_URL"),
        (["--workers", "0"], "at least one"),
        (["--port", "70000"], "65535"),
        (["--host", "203.0.113.1"], "Cannot listen"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(serve: Serve, arguments: list[str], told: str) -> None:
    served = serve(*arguments)
    assert served.process.wait(START_WITHIN_S) == 1
    assert told in served.output
    assert "Traceback" not in served.output


def children_of(pid: int) -> list[int]:
    """Direct children that serve (not multiprocessing's resource tracker)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


# The stub application asks nothing of Redis: that REDIS_URL is set is enough for workers.
WORKERS = {"REDIS_URL": "redis://127.0.0.1:1/0", "READY_DELAY_SECONDS": "0", "SHUTDOWN_GRACE_SECONDS": "5"}


def test_killed_parent_leaves_no_orphans(serve: Serve) -> None:
    served = serve("--workers", "2", **WORKERS)
    served.wait_ready()
    wait_until(lambda: len(children_of(served.process.pid)) == 2, START_WITHIN_S)
    workers = children_of(served.process.pid)
    time.sleep(1.0)
    served.process.kill()
    served.process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in workers), 20)
    with pytest.raises(httpx.ConnectError):
        served.status("/healthz")


def test_killed_worker_is_replaced_and_sigterm_ends_all(serve: Serve) -> None:
    served = serve("--workers", "2", **WORKERS)
    served.wait_ready()
    wait_until(lambda: len(children_of(served.process.pid)) == 2, START_WITHIN_S)
    victim = children_of(served.process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(set(children_of(served.process.pid)) - {victim}) == 2, START_WITHIN_S)
    served.wait_ready()
    served.process.terminate()
    assert served.process.wait(30) == 0
