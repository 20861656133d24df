"""Real processes: a Redis and a database of their own, `manage.py serve` as often as wanted, a worker and beat."""

import json
import os
import secrets
import signal
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import redis

from tests.bench.processes import Child, Processes, free_port, run_to_end
from tests.bench.stack import gateway_environment
from tests.bench.stores import Database, with_database
from tests.chaos.background import Background

ROOT = Path(__file__).resolve().parents[2]
START_S = 120.0
GRACE_S = 6
ADMIN, PASSWORD = "chaos-admin", "a long pass phrase for tests"
SLOTS = 3
"""Image requests at once, in all processes together."""
PLACES = 5
"""Requests at once of the tenant `narrow`."""
PER_MINUTE = 10
"""Requests a minute of the tenant `rated`."""
TENANTS = (
    "load",
    "spool",
    "kill",
    "claimed",
    "written",
    "database-stopped",
    "database-stopped-new",
    "database-hangs",
    "database-hangs-new",
    "paused",
    "stopped",
    "flush",
    "drain",
    "leaving",
    "images",
    "flags",
)


class RedisServer:
    """On a port of its own, without a disk: what it is told it forgets when it is told to."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self._child = processes.start("redis", [*command, "--dir", str(directory)])
        wait_until(self._answers, "redis-server does not answer")

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_timeout=1) as client, suppress(redis.RedisError):
            return bool(client.ping())
        return False

    def pause(self) -> None:
        self._child.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@dataclass(frozen=True, slots=True)
class Server:
    """One serving process."""

    name: str
    port: int
    child: Child
    data_dir: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.process.wait()

    def freeze(self) -> None:
        os.killpg(self.child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.child.pid, signal.SIGCONT)


@dataclass(slots=True)
class Programs:
    """Starts programs of this checkout, all with one environment."""

    processes: Processes
    environment: dict[str, str]
    _count: int = field(default=0, init=False)

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        return run_to_end(arguments[0], command, env=self.environment, cwd=ROOT, timeout_s=240)

    def start(self, name: str, kind: str, *arguments: str, **environment: str) -> Child:
        """kind: `script` or `module`. It ends with this process, whatever becomes of that."""
        self._count += 1
        command = [sys.executable, "-m", "gateway.guarded", str(os.getpid()), kind, *arguments]
        env = self.environment | environment
        return self.processes.start(f"{name}-{self._count}", command, env=env, cwd=ROOT)

    def serve(self, name: str, data_dir: Path, *, port: int = 0, **environment: str) -> Server:
        """Not ready yet: `wait_ready` waits for it."""
        port = port or free_port()
        data_dir.mkdir(exist_ok=True)
        arguments = ("manage.py", "serve", "--port", str(port), "--workers", "1")
        child = self.start(name, "script", *arguments, DATA_DIR=str(data_dir), **environment)
        return Server(name, port, child, data_dir)


class Cluster:
    """servers: by name. Those that a test killed are started again by `restore`."""

    def __init__(self, processes: Processes, directory: Path, server_url: str) -> None:
        self.directory = directory
        self.redis = RedisServer(processes, directory)
        self.database = Database(processes, server_url, 0)
        place = urlsplit(server_url)
        database = (place.hostname or "127.0.0.1", place.port or 5432)
        self.background = Background(database, ("127.0.0.1", self.redis.port))
        self.background.__enter__()
        processes.on_exit(self.background.__exit__)
        through_gate = place._replace(
            netloc=f"{place.username}@127.0.0.1:{self.background.gate.port}"
        ).geturl()
        environment = gateway_environment(
            with_database(through_gate, self.database.name), self.redis.url, directory / "data"
        )
        environment |= {"SHUTDOWN_GRACE_SECONDS": str(GRACE_S), "READY_DELAY_SECONDS": "0.5"}
        self.programs = Programs(processes, environment)
        self.keys = {
            name: f"sk-chaos-{secrets.token_hex(24)}" for name in (*TENANTS, "poor", "narrow", "rated")
        }
        self.servers: dict[str, Server] = {}
        self.worker: Child | None = None
        self.beat: Child | None = None

    def prepare(self) -> None:
        """An empty database becomes one with an upstream, prices and tenants."""
        (self.directory / "data").mkdir()
        self.programs.manage("migrate", "--verbosity", "0")
        file = self.directory / "chaos.yaml"
        file.write_text(json.dumps(configuration(self.background.upstream.base_url, self.keys)))
        self.programs.manage("apply", str(file))
        self.programs.environment["DJANGO_SUPERUSER_PASSWORD"] = PASSWORD
        self.programs.manage("createsuperuser", "--noinput", "--username", ADMIN, "--email", "a@example.com")

    def restore(self) -> None:
        """Four servers, a worker and beat, all of them awake and ready."""
        self.redis.resume()
        self.open_gates()
        for name in "abcd":
            if name not in self.servers or self.servers[name].child.process.poll() is not None:
                self.servers[name] = self.programs.serve(name, self.directory / f"data-{name}")
        if self.worker is None or self.worker.process.poll() is not None:
            self.worker_start()
        if self.beat is None or self.beat.process.poll() is not None:
            schedule = str(self.directory / f"beat-{secrets.token_hex(4)}")
            self.beat = self._celery("beat", "beat", "--schedule", schedule, "--pidfile", "")
        for server in self.servers.values():
            server.thaw()
            wait_ready(server)

    def open_gates(self) -> None:
        for gate in (self.background.gate, self.background.worker_gate):
            self.background.run(gate.open())

    def worker_start(self) -> None:
        quiet = ("--concurrency", "1", "--without-gossip", "--without-mingle")
        url = f"redis://127.0.0.1:{self.background.worker_gate.port}/0"
        self.worker = self._celery("worker", "worker", *quiet, REDIS_URL=url)

    def worker_kill(self) -> None:
        """The parent and its pool, in one moment."""
        os.killpg(self.worker.pid, signal.SIGKILL)
        self.worker.process.wait()

    def reconcile(self) -> None:
        """One run more than beat's, now."""
        code = "from billing.tasks import reconcile_open_records as run; run()"
        self.programs.manage("shell", "--no-imports", "-c", code)

    def _celery(self, name: str, *arguments: str, **environment: str) -> Child:
        command = ("celery", "-A", "gateway.celery", *arguments, "--loglevel", "WARNING")
        return self.programs.start(name, "module", *command, **environment)


def configuration(upstream_url: str, keys: dict[str, str]) -> dict[str, object]:
    """Whatever a model is called behind `@`, the upstream ignores it: prices and tenants may not."""
    limits = {
        "narrow": {"max_concurrent_requests": PLACES},
        "rated": {"requests_per_minute": PER_MINUTE},
        "kill": {"max_concurrent_requests": 1000},
        "flush": {"max_concurrent_requests": 1000},
        "leaving": {"max_concurrent_requests": 5000},
    }
    patterns = ("echo*", "interval-*", "slow-headers-*", "image-*")
    return {
        "flags": {
            "IMAGE_CONCURRENCY_ENABLED": True,
            "IMAGE_CONCURRENCY_MAX_CONCURRENT_REQUESTS": SLOTS,
            "IMAGE_CONCURRENCY_SCOPE": "cluster",
        },
        "channels": [
            {
                "name": "main",
                "kind": "openai",
                "base_url": upstream_url,
                "models": ["*"],
                "keys": ["sk-upstream"],
            }
        ],
        "prices": [
            *({"model": model, "input": 1, "output": 2, "per_image": "0.01"} for model in patterns),
            {"model": "slow-headers-2@dollar", "per_call": 1},
        ],
        "tenants": [
            {
                "name": name,
                "balance_usd": 3 if name == "poor" else 1000,
                "api_keys": [{"name": name, "key": key}],
                **limits.get(name, {}),
            }
            for name, key in keys.items()
        ],
    }


def wait_ready(server: Server) -> None:
    def is_ready() -> bool:
        server.child.check_alive()
        try:
            with urllib.request.urlopen(f"{server.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    wait_until(is_ready, f"{server.name} is not ready", START_S)


def wait_until(what, message: str, within_s: float = 20.0) -> None:
    """Blocks: not for a loop."""
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            raise AssertionError(message)
        time.sleep(0.1)
