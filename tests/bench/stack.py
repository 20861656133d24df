"""What is measured and what it needs: the compiled tools, the mock, the raw pass-through, the gateway.

The gateway is started by its own command line, as an operator would, with PostgreSQL, Redis and a worker.
"""

import fcntl
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.bench.machine import Cores, process_tree
from tests.bench.processes import (
    Child,
    HarnessError,
    Processes,
    free_port,
    on_core,
    run_to_end,
    wait_for_answer,
)
from tests.bench.stores import Database, database_server_url, empty_redis, redis_url

BENCH_DIR = Path(__file__).resolve().parent
ROOT = BENCH_DIR.parents[1]
BUILD_DIR = BENCH_DIR / "build"
CHAT_PATH = "/v1/chat/completions"
UNBILLED = "unbilled"
"""The gateway without admission and settlement."""
# Other settings of the caller must not leak into the measured processes.
KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers chat completions. `child` is None for servers that others started."""

    name: str
    url: str
    key: str
    child: Child | None = None
    pid: int = 0

    def pids(self) -> list[int]:
        root = self.child.pid if self.child else self.pid
        return process_tree(root) if root else []

    def wait_ready(self) -> None:
        wait_for_answer(self.url + CHAT_PATH, self.key, chat_body("mock-1-0", stream=False), self.child)


@dataclass(slots=True)
class Stack:
    """A started stack. `helpers` are the processes beside the target whose time counts as load-core time."""

    processes: Processes
    cores: Cores
    loadgen: Path
    mock: Target
    targets: list[Target] = field(default_factory=list)
    worker: Child | None = None
    redis_pids: list[int] = field(default_factory=list)
    database: Database | None = None

    def helper_pids(self) -> list[int]:
        """Mock first: those that work on the load core beside the generator."""
        workers = process_tree(self.worker.pid) if self.worker else []
        return [*self.mock.pids(), *workers, *self.redis_pids]

    def check_alive(self) -> None:
        for child in (self.mock.child, self.worker, *(target.child for target in self.targets)):
            if child is not None:
                child.check_alive()


def chat_body(model: str, *, stream: bool) -> bytes:
    """The request all loads send: about 200 bytes, usage asked for when streamed."""
    body: dict[str, object] = {"model": model}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body["messages"] = [{"role": "user", "content": "Tell me of the sea, in about two hundred words."}]
    return json.dumps(body, separators=(",", ":")).encode()


def build_tools() -> tuple[Path, Path]:
    """Compiles mock and load generator where their sources are newer. Returns (mock, loadgen)."""
    BUILD_DIR.mkdir(exist_ok=True)
    built = []
    for name in ("mock", "loadgen"):
        source, binary = BENCH_DIR / f"{name}.c", BUILD_DIR / name
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            compiler = next((found for one in ("gcc", "cc", "clang") if (found := shutil.which(one))), None)
            if compiler is None:
                raise HarnessError(
                    "The mock upstream and the load generator are C programs: install gcc and try again."
                )
            run_to_end(
                f"compiling {source.name}",
                [compiler, "-O2", "-w", "-o", str(binary), str(source)],
                timeout_s=120,
            )
        built.append(binary)
    return built[0], built[1]


def claim_machine(processes: Processes) -> None:
    """One run at a time: two would share cores and empty each other's Redis. Raises HarnessError."""
    lock = (BUILD_DIR / "lock").open("w")
    processes.on_exit(lock.close)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HarnessError(
            "another benchmark or rehearsal of this checkout is running: wait for its end"
        ) from error


def gateway_config(upstream_url: str, key: str) -> str:
    """The YAML that `manage.py apply` takes: one channel for any model, one price, one tenant with `key`."""
    return yaml.safe_dump(
        {
            "channels": [
                {
                    "name": "main",
                    "kind": "openai",
                    "base_url": upstream_url,
                    "models": ["*"],
                    "groups": ["default"],
                    "keys": ["sk-upstream"],
                }
            ],
            "prices": [{"model": "*", "input": 1.0, "output": 2.0}],
            "tenants": [
                {
                    "name": "bench",
                    "group": "default",
                    "balance_usd": 1_000_000,
                    "api_keys": [{"name": "bench", "key": key}],
                }
            ],
        },
        sort_keys=False,
    )


def gateway_environment(database_url: str, redis: str, data_dir: Path) -> dict[str, str]:
    """Production settings: both stores in place, keys given, loopback upstreams allowed."""
    return {
        **{name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis,
        "DATA_DIR": str(data_dir),
        "SECRET_KEY": secrets.token_urlsafe(48),
        "SEALING_KEYS": f"bench:{secrets.token_urlsafe(48)}",
        "ALLOWED_HOSTS": "127.0.0.1",
        "UPSTREAM_ALLOWED_PRIVATE_NETS": "127.0.0.0/8",
        "READY_DELAY_SECONDS": "0",
        "SHUTDOWN_GRACE_SECONDS": "3",
        "LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
    }


def start_mock(processes: Processes, cores: Cores, port: int = 0) -> Stack:
    """The empty stack: tools compiled, mock running on the load core, on `port` if given."""
    mock_binary, loadgen = build_tools()
    claim_machine(processes)
    port = port or free_port()
    child = processes.start("mock", on_core(cores.load, [str(mock_binary), str(port)]))
    mock = Target("direct", f"http://127.0.0.1:{port}", "none", child)
    mock.wait_ready()
    return Stack(processes, cores, loadgen, mock)


def add_raw(stack: Stack) -> Target:
    port = free_port()
    command = [
        sys.executable,
        str(BENCH_DIR / "raw_passthrough.py"),
        "--port",
        str(port),
        "--upstream",
        stack.mock.url,
    ]
    child = stack.processes.start("raw", on_core(stack.cores.server, command))
    return _add(stack, Target("raw", f"http://127.0.0.1:{port}", "none", child))


def add_gateway(stack: Stack, *, also_unbilled: bool = False) -> Target:
    """Database, migrations, configuration, server on its core, one worker on the other.

    also_unbilled: a second server beside it, with the same stores but without admission and settlement.
    """
    processes, cores = stack.processes, stack.cores
    work_dir = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    processes.on_exit(lambda: shutil.rmtree(work_dir, ignore_errors=True))
    stack.database = Database(processes, database_server_url(), cores.load)
    redis = redis_url()
    stack.redis_pids = empty_redis(processes, redis, cores.load)
    env = gateway_environment(stack.database.url, redis, work_dir)
    key = f"sk-bench-{secrets.token_hex(24)}"
    config = work_dir / "bench.yaml"
    config.write_text(gateway_config(stack.mock.url, key))
    config.chmod(0o600)

    def manage(*arguments: str) -> list[str]:
        return [sys.executable, "manage.py", *arguments]

    run_to_end("migrate", manage("migrate", "--verbosity", "0"), env=env, cwd=ROOT, timeout_s=180)
    run_to_end("apply", manage("apply", str(config)), env=env, cwd=ROOT, timeout_s=60)
    worker_command = [sys.executable, "-m", "celery", "-A", "gateway.celery", "worker", "--concurrency", "1"]
    worker_command += ["--loglevel", "WARNING", "--without-gossip", "--without-mingle"]
    stack.worker = processes.start("worker", on_core(cores.load, worker_command), env=env, cwd=ROOT)
    gateway = _serve(stack, "gateway", env, key)
    if also_unbilled:
        _serve(stack, UNBILLED, env | {"DJANGO_SETTINGS_MODULE": "tests.bench.unbilled_settings"}, key)
    return gateway


def _serve(stack: Stack, name: str, env: dict[str, str], key: str) -> Target:
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command = on_core(stack.cores.server, [*command, "--workers", "1"])
    child = stack.processes.start(name, command, env=env, cwd=ROOT)
    return _add(stack, Target(name, f"http://127.0.0.1:{port}", key, child))


def add_running(stack: Stack, name: str, url: str, key: str, pid: int) -> Target:
    """A server that somebody else started and that has a channel to a mock."""
    return _add(stack, Target(name, url.rstrip("/"), key, None, pid))


def _add(stack: Stack, target: Target) -> Target:
    target.wait_ready()
    stack.targets.append(target)
    return target


def parse_pairs(pairs: Sequence[str], what: str) -> dict[str, str]:
    """["a=b"] → {"a": "b"}. Raises HarnessError for anything else."""
    parsed = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name or not value:
            raise HarnessError(f"{what} wants NAME=VALUE, got {pair!r}")
        parsed[name] = value
    return parsed
