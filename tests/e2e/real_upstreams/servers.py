"""Starts upstream servers that nobody here wrote, from packages fetched once into var/real-upstreams.

Raises Unavailable with a one-line reason where a package cannot be had.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from gateway.settings.environment import BASE_DIR

AIMOCK = "@copilotkit/aimock@1.43.0"
LLAMA = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
CACHE = BASE_DIR / "var" / "real-upstreams"
INSTALL_WITHIN_S = 240
STARTED_WITHIN_S = 40

GREETING = "Hello! How can I help you today? Grüße, 猫."
FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "greet"}, "response": {"content": GREETING}},
        {
            "match": {"userMessage": "weather"},
            "response": {"toolCalls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
        },
    ]
}


class Unavailable(Exception):
    """The package cannot be installed here."""


@contextlib.contextmanager
def aimock(directory: Path) -> Iterator[str]:
    """The base URL of a mock of OpenAI's API that is written in JavaScript."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("aimock needs node and npm")
    home = CACHE / "aimock"
    program = home / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    with _alone():
        if not program.exists():
            home.mkdir(parents=True, exist_ok=True)
            _install([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home), AIMOCK])
    fixtures = directory / "fixtures.json"
    fixtures.write_bytes(orjson.dumps(FIXTURES))
    with _serving([node, str(program), "--port", "0", "--strict", "--fixtures", str(fixtures)]) as url:
        yield url


@contextlib.contextmanager
def llama_cpp(directory: Path) -> Iterator[str]:
    """The base URL of llama.cpp's server with a tiny model of random weights."""
    home = CACHE / "llama"
    python = home / "bin" / "python"
    with _alone():
        if not (home / "installed").exists():
            _install([sys.executable, "-m", "venv", "--clear", str(home)])
            _install([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *LLAMA])
            (home / "installed").touch()
    script = Path(__file__).parent / "llama_server.py"
    with _serving([str(python), str(script), str(directory)]) as url:
        yield url


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process installs, the others wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=INSTALL_WITHIN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{Path(command[0]).name} took over {INSTALL_WITHIN_S} s") from error
    if done.returncode != 0:
        raise Unavailable(f"{Path(command[0]).name} could not install {command[-1]}")


@contextlib.contextmanager
def _serving(command: Sequence[str]) -> Iterator[str]:
    """The URL that the program prints when it listens; ended when the block is."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "HF_"))
    }
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    give_up = threading.Timer(STARTED_WITHIN_S, process.kill)
    give_up.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            before, found, after = line.decode().rpartition("http://")
            if found and "listening" in before:
                give_up.cancel()
                yield found + after.strip()
                return
        raise AssertionError(f"{command[0]} ended without listening")
    finally:
        give_up.cancel()
        process.terminate()
        process.communicate(timeout=10)
