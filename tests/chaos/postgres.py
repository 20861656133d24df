"""A PostgreSQL server of the tests' own: it can be stopped, and nobody else notices."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.bench.processes import Processes, run_to_end
from tests.chaos.background import held_port
from tests.chaos.cluster import wait_until

_PACKAGED = Path("/usr/lib/postgresql")
"""Debian keeps `initdb` and `postgres` out of the path."""


def programs() -> Path | None:
    """The folder of the server's programs; None where they are not installed."""
    folders = sorted(_PACKAGED.glob("*/bin"), reverse=True)
    found = shutil.which("initdb") or next(
        (one / "initdb" for one in folders if (one / "initdb").exists()), None
    )
    return Path(found).resolve().parent if found else None


class PostgresServer:
    """On a port of its own, with its rows in a folder that goes with it. programs: folder of `postgres`."""

    def __init__(self, processes: Processes, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="sluice-chaos-postgres-"))
        processes.on_exit(lambda: shutil.rmtree(self._directory, ignore_errors=True))
        self._as_user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self._directory, "postgres", "postgres")
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._held, self.port = held_port()
        processes.on_exit(self._held.close)
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._rows = self._directory / "rows"
        command = [
            str(programs / "initdb"),
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            str(self._rows),
        ]
        run_to_end("initdb", [*self._as_user, *command], cwd=self._directory, timeout_s=120)
        self._log = self._directory / "log"
        self._server: subprocess.Popen[bytes] | None = None
        processes.on_exit(self.stop)
        self.start()

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*self._as_user, str(self._programs / "postgres"), "-D", str(self._rows), *options]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                command, cwd=self._directory, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._answers, "the PostgreSQL server does not answer", 60)

    def stop(self) -> None:
        """As its operator does: sessions are ended, nobody may connect. Idempotent."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(60)
            self._server = None

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def _answers(self) -> bool:
        if not self.is_running:
            raise AssertionError(f"the PostgreSQL server ended:\n{self._log.read_text()[-3000:]}")
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True
