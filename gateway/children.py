"""Child processes of a command: started apart from the terminal's signals, all ended on the way out.

Each runs under `gateway.guarded`, so that it also ends when this process is killed outright. Must not
import Django.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_S = 10.0
"""For all of them together; then they are killed."""


class ChildFailed(Exception):
    """A child ended, or said nothing, before it was ready. The text names it."""


class Children:
    """A context manager: whatever was started inside is gone behind it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start_script(self, *arguments: str) -> subprocess.Popen[bytes]:
        """arguments: the script, relative to the root, and what it gets. Its stdout can be read."""
        return self._start("script", arguments, subprocess.PIPE)

    def start_module(self, *arguments: str) -> subprocess.Popen[bytes]:
        """arguments: the module and what it gets. What it says on stdout is dropped."""
        return self._start("module", arguments, subprocess.DEVNULL)

    def stop(self) -> None:
        """Politely, then not. Returns when none is left."""
        for child in self._running:
            _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for child in self._running:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(child, signal.SIGKILL)
                child.wait()
            if child.stdout is not None:
                child.stdout.close()
        self._running.clear()

    def _start(self, kind: str, arguments: Sequence[str], stdout: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "gateway.guarded", str(os.getpid()), kind, *arguments]
        child = subprocess.Popen(  # noqa: S603  our own interpreter and arguments
            command,
            cwd=self._root,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            # Ctrl-C goes to the terminal's whole group: the upstream must outlive the streams it feeds.
            start_new_session=True,
        )
        self._running.append(child)
        return child


def first_line(child: subprocess.Popen[bytes], name: str, timeout_s: float) -> str:
    """What the child says first. Raises ChildFailed."""
    if child.stdout is None:
        raise ValueError("its output is not read")
    readable, _, _ = select.select([child.stdout], [], [], timeout_s)
    line = child.stdout.readline().decode(errors="replace").strip() if readable else ""
    if not line:
        state = "ended" if readable else f"said nothing for {timeout_s:.0f} s"
        raise ChildFailed(f"The {name} {state} before it was ready.")
    return line


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
