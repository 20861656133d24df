"""A Redis server of a test's own, which it may pause, kill and start again."""

import contextlib
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis

SERVER = shutil.which("redis-server")


class RedisProcess:
    """Reached by a socket file; with an append-only file it remembers what it was told."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{directory}/redis.sock?db=0"

    def start(self, *, remembers: bool = True) -> None:
        command = [
            SERVER,
            "--port",
            "0",
            "--unixsocket",
            "redis.sock",
            "--save",
            "",
            "--appendfsync",
            "always",
        ]
        command += ["--appendonly", "yes" if remembers else "no"]
        self._process = subprocess.Popen(command, cwd=self._directory, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(redis.RedisError), redis.Redis.from_url(self.url) as client:
                client.ping()
                return
            time.sleep(0.02)
        raise TimeoutError("redis-server did not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
