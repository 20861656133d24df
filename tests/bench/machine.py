"""What the operating system says: cores, CPU time, resident memory, sockets. Reads /proc (Linux), changes nothing.

Must not import the harness or the gateway.
"""

import os
import platform
import resource
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PACKAGES = (
    "django",
    "django-ninja",
    "uvicorn",
    "uvloop",
    "httptools",
    "aiohttp",
    "httpx",
    "redis",
    "psycopg",
)


@dataclass(frozen=True, slots=True)
class Cores:
    """Where things run: the measured server alone on `server`, everything else on `load`."""

    server: int
    load: int

    @property
    def shared(self) -> bool:
        return self.server == self.load


def choose_cores() -> Cores:
    """The first two cores this process may use; one core twice where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(server=allowed[0], load=allowed[1] if len(allowed) > 1 else allowed[0])


def raise_file_limit() -> None:
    """As many descriptors as the system grants, for this process and those it starts: a stream takes two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the command name (which may hold spaces); empty if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def process_tree(root: int) -> list[int]:
    """`root` and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    tree, todo = [], [root]
    while todo:
        pid = todo.pop()
        tree.append(pid)
        todo.extend(children.get(pid, ()))
    return tree


def cpu_seconds(pids: list[int]) -> float:
    """User and system time these processes have used so far."""
    ticks = 0
    for pid in pids:
        if fields := _stat(pid):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


def core_busy_seconds(core: int) -> float:
    """Time the core has spent on anything but idling, waiting for disks, or on another guest."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *rest = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq = (int(field) for field in rest[:7])
            return (user + nice + system + irq + softirq) / TICKS_PER_SECOND
    return 0.0


def rss_kb(pids: list[int]) -> int:
    """Resident memory in KiB, summed."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
    return total


def socket_count(pids: list[int]) -> int:
    """Open socket descriptors."""
    total = 0
    for pid in pids:
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                total += str(descriptor.readlink()).startswith("socket:")
            except OSError:
                continue
    return total


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def _commit(root: Path) -> str:
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def machine_info(root: Path) -> dict[str, object]:
    """What a reader needs to judge the figures."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_mb": int(memory) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _package_version(name) for name in PACKAGES},
        "commit": _commit(root),
        "load_average_before": [round(value, 2) for value in os.getloadavg()],
    }
