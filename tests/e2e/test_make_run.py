"""`make run` as a newcomer meets it: start, stream with the printed line, look into the console, stop."""

import itertools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
START_S = 90.0
STOP_S = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass
class Demo:
    process: subprocess.Popen[str]
    summary: str
    errors: Path

    @property
    def url(self) -> str:
        return self.found(r"running at (\S+)")

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.summary)
        assert match, f"{pattern} is not in:\n{self.summary}"
        return match[1]

    def children(self) -> list[int]:
        return _descendants(self.process.pid)

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_S)


def _descendants(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(entry.parent.name)
            found += [child, *_descendants(child)]
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_gone(pids: list[int], timeout_s: float) -> list[int]:
    """Those that are still there after the time."""
    deadline = time.monotonic() + timeout_s
    while (left := [pid for pid in pids if _is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@contextmanager
def running_demo(data_dir: Path, *options: str) -> Iterator[Demo]:
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    errors = data_dir / "stderr.txt"
    data_dir.mkdir(exist_ok=True)
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "run_demo", "--port", "0", "--simulator-port", "0", *options],
            cwd=ROOT,
            env=env | {"DATA_DIR": str(data_dir)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield Demo(process, _read_summary(process, errors), errors)
    finally:
        children = _descendants(process.pid)
        process.kill()
        process.wait()
        process.stdout.close()
        for pid in _wait_gone(children, 10):
            os.kill(pid, signal.SIGKILL)


def _read_summary(process: subprocess.Popen[str], errors: Path) -> str:
    """Up to the SDK's line, the last one. The pytest time limit ends a start that hangs."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "OpenAI(" in line:
            return "".join(lines)
    pytest.fail(f"it ended early: {lines} {errors.read_text()}")


def _contents(demo: Demo) -> list[tuple[float, str]]:
    """Runs the printed curl line: each delta's time of arrival, in seconds, and its text."""
    words = shlex.split(demo.found(r"(?m)^\s*(curl .*)$"))
    url = next(word for word in words if word.startswith("http"))
    headers = dict(value.split(": ", 1) for flag, value in itertools.pairwise(words) if flag == "-H")
    body = words[words.index("-d") + 1]
    assert "-N" in words, "curl would wait for a full buffer"
    seen = []
    with httpx.stream("POST", url, headers=headers, content=body, timeout=30) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: "))["choices"]
                text = choices[0]["delta"].get("content") if choices else None
                if text:
                    seen.append((time.monotonic(), text))
    return seen


@contextmanager
def _console(demo: Demo) -> Iterator[httpx.Client]:
    """Logged in with the printed name and password."""
    name, password = demo.found(r"Login +(.+)").split(" / ")
    with httpx.Client(base_url=demo.url, follow_redirects=True, timeout=30) as client:
        page = client.get("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
        form = {"username": name, "password": password, "csrfmiddlewaretoken": token, "next": "/admin/"}
        landed = client.post("/admin/login/", data=form, headers={"Referer": demo.url})
        assert landed.status_code == 200
        assert landed.url.path == "/admin/", "the printed password was refused"
        yield client


def _refusal(data_dir: Path, *options: str) -> str:
    """What a start that fails says."""
    with pytest.raises(pytest.fail.Exception) as caught, running_demo(data_dir, *options):
        pass
    told = str(caught.value)
    assert "Traceback" not in told
    return told


def _check_token_by_token(seen: list[tuple[float, str]]) -> None:
    assert "".join(text for _, text in seen) == "Every word of this comes back by itself."
    times = [at for at, _ in seen]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(seen) >= 8
    assert sum(gap > 0.01 for gap in gaps) >= len(gaps) - 2
    assert times[-1] - times[0] > 0.15


def _check_listed(demo: Demo, model: str) -> None:
    """The request is in the console's list soon after it settled."""
    with _console(demo) as console:
        deadline = time.monotonic() + 15
        while model not in (page := console.get("/admin/billing/relayrequest/")).text:
            assert time.monotonic() < deadline, "the request never came into the list"
            time.sleep(0.2)
        assert page.status_code == 200


def test_from_nothing_to_a_stream_the_console_and_the_end(tmp_path):
    with running_demo(tmp_path / "data") as demo:
        assert demo.errors.read_text() == "", "nothing noisy comes before the summary"
        _check_token_by_token(_contents(demo))
        _check_listed(demo, "echo")

        told = _refusal(tmp_path / "other", "--port", demo.url.rpartition(":")[2])
        assert "Cannot listen on" in told
        assert "make run PORT=" in told

        children = demo.children()
        assert children
        assert demo.stop(signal.SIGTERM) == 0
        assert [pid for pid in children if _is_alive(pid)] == []
        assert demo.errors.read_text() == ""


def test_a_second_start_keeps_key_and_password_and_no_child_outlives_a_kill(tmp_path):
    data_dir = tmp_path / "data"
    with running_demo(data_dir) as first:
        shown = (first.found(r"API key +(.+)"), first.found(r"Login +(.+)"))
        simulator = first.found(r"simulator at (\S+);")
        children = first.children()
        assert "Already serving" in _refusal(data_dir)
        assert first.stop(signal.SIGINT) == 0, "Ctrl-C is no failure"
        assert [pid for pid in children if _is_alive(pid)] == []
    for name in ("demo_api_key", "demo_admin_password"):
        assert (data_dir / name).stat().st_mode & 0o777 == 0o600

    port = simulator.rpartition(":")[2]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        with running_demo(data_dir, "--simulator-port", port) as second:
            assert (second.found(r"API key +(.+)"), second.found(r"Login +(.+)")) == shown
            assert second.found(r"simulator at (\S+);") != simulator
            assert _contents(second), "the channel has moved to the simulator's new port"
            children = second.children()
            assert children
            second.stop(signal.SIGKILL)
            assert _wait_gone(children, 10) == []
