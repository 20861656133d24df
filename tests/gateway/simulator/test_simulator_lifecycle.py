"""Starting, stopping, remembering, keys: what tests and the demo lean on."""

import ast
import asyncio
import contextlib
import gc
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest

from gateway.simulator import Simulator, running_simulator
from gateway.simulator.server import run_simulator
from tests.gateway.simulator.talk import chat, hear, hear_chat

ROOT = Path(__file__).parents[3]


async def wait_until(condition, *, for_s: float = 2.0) -> None:
    async with asyncio.timeout(for_s):
        while not condition():
            await asyncio.sleep(0.005)


def _open_sockets() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith("socket:")
    return found


async def test_stop_leaves_no_task_and_no_socket_whatever_was_running():
    tasks, sockets = asyncio.all_tasks(), _open_sockets()
    async with aiohttp.ClientSession() as client:
        async with running_simulator(pace_s=0.01) as simulator:
            for model in ("stall-after-1", "keepalive-only", "interval-40", "slow-headers-60"):
                asking = client.post(simulator.base_url + "/v1/chat/completions", json=chat(model))
                if model == "slow-headers-60":
                    waiting = asyncio.ensure_future(asking)
                else:
                    await asking
            await (await client.get(simulator.base_url + "/v1/models")).read()
            await wait_until(lambda: simulator.running_requests == 4)
            assert simulator.open_connections == 5
        with pytest.raises(aiohttp.ClientError):
            await waiting
        assert simulator.open_connections == 0
        assert simulator.running_requests == 0
    await asyncio.sleep(0.05)
    gc.collect()
    assert asyncio.all_tasks() <= tasks
    assert _open_sockets() == sockets


async def test_port_is_free_again_after_stop():
    async with running_simulator() as first:
        port = int(first.base_url.rsplit(":", 1)[1])
        assert (await hear_chat(first, "echo-0")).status == 200
    async with running_simulator(port=port) as second:
        assert second.base_url == first.base_url


async def test_taken_port_is_an_error_and_leaves_nothing():
    tasks = asyncio.all_tasks()
    async with running_simulator() as first:
        with pytest.raises(OSError, match="address already in use"):
            async with running_simulator(port=int(first.base_url.rsplit(":", 1)[1])):
                pass
    assert asyncio.all_tasks() <= tasks


async def test_requests_are_remembered_as_they_came(simulator: Simulator):
    await hear(
        simulator, "/v1/chat/completions?api-version=1", chat("echo-0"), headers={"Authorization": "Bearer k"}
    )
    (received,) = simulator.requests
    assert (received.method, received.path) == ("POST", "/v1/chat/completions")
    assert received.raw_path == "/v1/chat/completions?api-version=1"
    assert received.json["model"] == "echo-0"
    assert received.header("AUTHORIZATION") == "Bearer k"
    assert received.finished_at is not None
    assert received.finished_at >= received.at
    assert received.left_at is None
    simulator.reset()
    assert simulator.requests == []


async def test_memory_of_requests_is_bounded():
    async with running_simulator(pace_s=0, kept_requests=2) as simulator:
        for model in ("a", "b", "c"):
            await hear_chat(simulator, model)
        assert [received.model for received in simulator.requests] == ["b", "c"]


@pytest.mark.parametrize("model", ["stall-after-1", "slow-headers-60", "interval-40", "slow-first-byte-60"])
async def test_client_that_leaves_is_noticed_at_once(simulator: Simulator, model: str):
    loop = asyncio.get_running_loop()
    await hear_chat(simulator, model, for_s=0.2)
    left = loop.time()
    await wait_until(lambda: simulator.requests[0].left_at is not None)
    assert loop.time() - left < 0.1
    assert simulator.requests[0].finished_at is None
    await wait_until(lambda: simulator.open_connections == 0)


async def test_deliberate_cut_does_not_count_as_a_client_that_left(simulator: Simulator):
    await hear_chat(simulator, "cut-after-1")
    assert simulator.requests[0].left_at is None
    assert simulator.requests[0].finished_at is not None


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"Authorization": "Bearer right"}, "", 200),
        ({"x-api-key": "right"}, "", 200),
        ({"api-key": "right"}, "", 200),
        ({"x-goog-api-key": "right"}, "", 200),
        ({}, "?key=right", 200),
        ({"Authorization": "Bearer wrong"}, "", 401),
        ({"Authorization": "right"}, "", 401),
        ({"x-api-key": "schlüssel"}, "", 401),
        ({}, "", 401),
    ],
)
async def test_required_key(headers, query, status):
    async with running_simulator(pace_s=0, required_key="right") as simulator:
        heard = await hear(simulator, "/v1/chat/completions" + query, chat("echo"), headers=headers)
    assert heard.status == status
    if status == 401:
        assert heard.json["error"]["code"] == "invalid_api_key"


async def test_wrong_key_is_told_in_the_dialect_of_the_endpoint():
    async with running_simulator(required_key="right") as simulator:
        anthropic = await hear(simulator, "/v1/messages", chat("echo"))
        gemini = await hear(simulator, "/v1beta/models/echo:generateContent", {})
    assert anthropic.json["error"]["type"] == "authentication_error"
    assert gemini.json["error"]["status"] == "UNAUTHENTICATED"


async def test_idle_connection_is_closed_after_the_keepalive_time():
    async with running_simulator(pace_s=0, keepalive_s=0.05) as simulator, aiohttp.ClientSession() as client:
        await (await client.get(simulator.base_url + "/v1/models")).read()
        assert simulator.open_connections == 1
        await wait_until(lambda: simulator.open_connections == 0)


async def test_http_1_0_client_gets_a_close_delimited_stream(simulator: Simulator):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(simulator.base_url.rsplit(":", 1)[1]))
    body = b'{"model":"echo-0","stream":true,"messages":[{"role":"user","content":"hello"}]}'
    writer.write(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b"chunked" not in answer.lower()
    assert answer.endswith(b"data: [DONE]\n\n")


def test_simulator_imports_neither_django_nor_the_rest_of_the_project():
    foreign = []
    for file in (ROOT / "gateway/simulator").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                is_project = name.split(".")[0] in {"django", "relay", "billing", "channels_admin", "gateway"}
                if is_project and not name.startswith("gateway.simulator"):
                    foreign.append(f"{file.name}: {name}")
    assert foreign == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_process_serves_until_a_signal_and_leaves_cleanly(number):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    program = f"from gateway.simulator import run_simulator; run_simulator(port={port}, on_ready=lambda url: print(url, flush=True))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-W", "error", "-c", program),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).decode().strip() == f"http://127.0.0.1:{port}"
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    process.send_signal(number)
    _, errors = await asyncio.wait_for(process.communicate(), 10)
    writer.close()
    assert (process.returncode, errors) == (0, b"")


def test_run_simulator_reports_a_taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            run_simulator(port=taken.getsockname()[1])
