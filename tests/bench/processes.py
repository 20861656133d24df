"""Starting and, above all, ending processes: each in a group of its own, ended on every way out.

Knows nothing of benchmarks. Whoever enters a `Processes` gets: children ended in reverse order at exit,
on an exception, on Ctrl-C, SIGTERM and SIGHUP.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

LOG_TAIL_BYTES = 3000


class HarnessError(Exception):
    """The benchmark cannot go on; the message says why, for a person."""


def say(text: str = "") -> None:
    """One line to the terminal, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def free_port() -> int:
    """A loopback port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def on_core(core: int, command: Sequence[str]) -> list[str]:
    """The command, pinned. `taskset` replaces itself, so the process id is the command's own."""
    return ["taskset", "-c", str(core), *command]


class Child:
    """A started process and where its output goes."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name, self.process, self.log = name, process, log

    @property
    def pid(self) -> int:
        return self.process.pid

    def check_alive(self) -> None:
        """Raises HarnessError with the end of its output if it has gone."""
        if (code := self.process.poll()) is not None:
            raise HarnessError(f"{self.name} ended with code {code}:\n{self.output_tail()}")

    def output_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def end(self, grace_s: float = 8.0) -> None:
        """TERM to the group, KILL to what is left of it. Safe to call twice."""
        self._signal_group(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(grace_s)
        self._signal_group(signal.SIGKILL)
        self.process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class Processes:
    """Owns all children of a run, and other things to undo (`on_exit`), in one reversed order."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs without it
        atexit.register(self._undo.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave half of it running.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._undo.close()
        finally:
            atexit.unregister(self._undo.close)
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_exit(self, undo: Callable[[], object]) -> None:
        self._undo.callback(undo)

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Child:
        log = self.log_dir / f"{name}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        child = Child(name, process, log)
        self._undo.callback(child.end)
        return child


def run_to_end(
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float,
) -> str:
    """Standard output of a command that must succeed."""
    try:
        done = subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{name}: {command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{name} did not end within {timeout_s:.0f} s") from error
    if done.returncode:
        raise HarnessError(
            f"{name} failed with code {done.returncode}:\n{(done.stdout + done.stderr)[-LOG_TAIL_BYTES:]}"
        )
    return done.stdout


def wait_for_answer(url: str, key: str, body: bytes, child: Child | None, timeout_s: float = 40.0) -> None:
    """Until a POST is answered with 200. Raises HarnessError with the last answer otherwise."""
    deadline, last = time.monotonic() + timeout_s, "no answer"
    request = urllib.request.Request(
        url, data=body, headers={"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    )
    while time.monotonic() < deadline:
        if child is not None:
            child.check_alive()
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
                return
        except urllib.error.HTTPError as error:
            last = f"{error.code}: {error.read(500).decode(errors='replace')}"
        except OSError as error:
            last = str(error)
        time.sleep(0.1)
    tail = f"\n{child.output_tail()}" if child is not None else ""
    raise HarnessError(f"{url} did not answer with 200 within {timeout_s:.0f} s; last: {last}{tail}")
