"""Starting and stopping: lifespan, health, the drain, WebSockets nobody serves, and Daphne, which has no lifespan."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from channels.testing import WebsocketCommunicator

from gateway import wiring
from gateway.front import drain as draining
from tests.flows import views
from tests.flows.raw_http import ask, request_bytes
from tests.flows.server import RunningServer, running_server
from tests.gateway.front.conftest import StubWiring

ROOT = Path(__file__).resolve().parents[3]


async def test_lifespan_starts_and_stops_the_wiring_once(stub_wiring: StubWiring) -> None:
    async with running_server(views.stub_application(), lifespan="on") as server:
        assert stub_wiring.calls == ["start"]
        await ask(server, request_bytes("GET", "/v1/sync"))
    assert stub_wiring.calls == ["start", "stop"]


async def test_without_lifespan_the_first_request_starts_the_wiring(stub_wiring: StubWiring) -> None:
    async with running_server(views.stub_application(), lifespan="off") as server:
        assert (await ask(server, request_bytes("GET", "/healthz"))).status == 200
        assert stub_wiring.calls == [], "a liveness probe needs none of it"
        assert (await ask(server, request_bytes("GET", "/readyz"))).status == 200
        await ask(server, request_bytes("GET", "/v1/sync"))
    assert stub_wiring.calls == ["start"]


async def test_wiring_that_cannot_start_fails_the_start(
    stub_wiring: StubWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        raise OSError("no database")

    monkeypatch.setattr(wiring, "start", start)
    with pytest.raises(RuntimeError, match="did not start"):
        async with running_server(views.stub_application(), lifespan="on"):
            pass


async def test_wiring_that_cannot_stop_is_logged_without_its_text(
    stub_wiring: StubWiring, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop() -> None:
        raise ValueError("SECRET-" + "PROMPT")

    monkeypatch.setattr(wiring, "stop", stop)
    async with running_server(views.stub_application(), lifespan="on"):
        pass
    assert "shutdown failed: builtins.ValueError" in caplog.text
    assert "SECRET-PROMPT" not in caplog.text


async def test_first_request_without_wiring_is_an_error_and_the_next_tries_again(
    stub_wiring: StubWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        stub_wiring.is_started = len(attempts) > 0
        attempts.append("start")
        if not stub_wiring.is_started:
            raise OSError("no database yet")

    attempts: list[str] = []
    monkeypatch.setattr(wiring, "start", start)
    async with running_server(views.stub_application(), lifespan="off") as server:
        assert (await ask(server, request_bytes("GET", "/v1/sync"))).status == 500
        assert (await ask(server, request_bytes("GET", "/v1/sync"))).status == 200


async def test_ready_is_false_while_draining_and_before_the_first_configuration(
    front: RunningServer, stub_wiring: StubWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        """Comes back without a configuration."""

    assert (await ask(front, request_bytes("GET", "/readyz"))).json() == {"status": "ready"}
    monkeypatch.setattr(wiring, "start", start)
    stub_wiring.is_started = False
    answer = await ask(front, request_bytes("GET", "/readyz"))
    assert (answer.status, answer.json()) == (503, {"status": "starting"})
    stub_wiring.is_started = True
    draining.drain.begin()
    answer = await ask(front, request_bytes("GET", "/readyz", close=False))
    assert (answer.status, answer.json()) == (503, {"status": "draining"})
    assert answer.header("connection") == "close", "the next request goes elsewhere"
    assert (await ask(front, request_bytes("HEAD", "/readyz"))).status == 503
    assert (await ask(front, request_bytes("GET", "/healthz"))).status == 200


def test_stop_all_reaches_everybody_who_is_still_registered(caplog: pytest.LogCaptureFixture) -> None:
    stopped: list[str] = []
    drain = draining.Drain()

    def broken() -> None:
        raise ValueError("SECRET")

    drain.on_stop_all(broken)
    forget = drain.on_stop_all(lambda: stopped.append("gone"))
    drain.on_stop_all(lambda: stopped.append("here"))
    forget()
    forget()
    drain.stop_all()
    assert stopped == ["here"]
    assert "ValueError" in caplog.text
    assert "SECRET" not in caplog.text


async def test_signal_is_passed_on_late_and_at_once_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.conf.settings.READY_DELAY_SECONDS", 30.0)
    passed: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: passed.append(number))
    try:
        draining.drain.reset()
        draining.install_signal_handlers(asyncio.get_running_loop())
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert draining.drain.is_draining
        assert passed == []
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert passed == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)
        draining.drain.reset()


@pytest.mark.parametrize(
    ("path", "origin"),
    [("/v1/realtime", b""), ("/v1/realtime", b"https://app.example"), ("/nowhere", b"http://localhost")],
)
async def test_websocket_nobody_serves_is_refused(stub_wiring: StubWiring, path: str, origin: bytes) -> None:
    headers = [(b"origin", origin)] if origin else []
    client = WebsocketCommunicator(views.stub_application(), path, headers=headers)
    assert await client.connect() == (False, 4404)
    await client.wait()


async def test_websocket_from_a_foreign_origin_is_refused(stub_wiring: StubWiring) -> None:
    client = WebsocketCommunicator(
        views.stub_application(), "/console/live", headers=[(b"origin", b"https://evil.example")]
    )
    connected, code = await client.connect()
    assert not connected
    assert code != 4404, "refused before it was routed"
    await client.wait()


async def test_trusted_proxy_names_the_client(front: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from ipaddress import ip_network  # noqa: PLC0415  only here

    raw = request_bytes("GET", "/v1/seen/x", ("X-Forwarded-For", "6.6.6.6, 203.0.113.9"))
    assert (await ask(front, raw)).json()["client_ip"] == "127.0.0.1"
    monkeypatch.setattr("django.conf.settings.TRUSTED_PROXIES", (ip_network("127.0.0.0/8"),))
    assert (await ask(front, raw)).json()["client_ip"] == "203.0.113.9"


# Daphne


@pytest.fixture
def daphne(tmp_path: Path) -> Iterator[str]:
    """Its URL. No lifespan, no hold on connections, a disconnect only through `receive`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.flows.stub_settings",
        "DATA_DIR": str(tmp_path / "data"),
    }
    with (tmp_path / "output.txt").open("wb") as sink:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "daphne",
                "-b",
                "127.0.0.1",
                "-p",
                str(port),
                "tests.flows.stub_asgi:application",
            ],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 40
        while True:
            try:
                httpx.get(f"{url}/healthz", timeout=1, trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None, (tmp_path / "output.txt").read_text()
                assert time.monotonic() < deadline, (tmp_path / "output.txt").read_text()
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_daphne(daphne: str) -> None:
    with httpx.Client(base_url=daphne, timeout=5, trust_env=False) as client:
        assert client.get("/readyz").status_code == 200, "the wiring was started by a request"
        assert client.post("/v1/echo", content=b"hello").content == b"hello"
        seen = client.post("/v1/seen/a%2Fb?q=1", content=b"x").json()
        assert (seen["rest"], seen["raw_path"], seen["query"]) == ("a/b", "/v1/seen/a%2Fb", {"q": ["1"]})
        assert seen["is_abortable"] is False
        assert client.get("/v1/tick?count=3").content == b"x" * 15
        assert client.get("/v1/crash").json()["error"]["code"] == "internal_error"
        assert client.get("/v1/big?size=200000").content == b"y" * 200_000
        assert client.get("/admin/login/").status_code == 200
        client.get("/v1/heard?clear=1")
        with pytest.raises(httpx.ReadTimeout):
            client.get("/v1/wait", timeout=0.3)
        with client.stream("GET", "/v1/tick?count=1000&pause_ms=50") as stream:
            next(stream.iter_raw())
        time.sleep(0.5)
        assert client.get("/v1/heard").json() == [
            "waiting",
            "cancelled",
            "transmitting",
            "client_left",
            "stopped",
        ]
