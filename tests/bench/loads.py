"""The fixed loads, one run of the load generator, and waiting until a target is calm again."""

import json
import subprocess
import time
from dataclasses import dataclass, replace
from typing import Any

from tests.bench.machine import core_busy_seconds, cpu_seconds
from tests.bench.processes import HarnessError, on_core
from tests.bench.stack import CHAT_PATH, Stack, Target, chat_body

CALM_SHARE = 0.08  # of a core: pollers and heartbeats use less, work left over uses more
CALM_WINDOW_S = 0.5
CALM_LIMIT_S = 60.0
GENERATOR_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` clients that ask again as soon as they have their answer, for `seconds` after `warmup`."""

    name: str
    connections: int
    model: str
    stream: bool
    ramp_ms: int = 0
    warmup: float = 0.5
    seconds: float = 2.0

    @property
    def paced(self) -> bool:
        """The upstream sets the pace: what counts is that everything arrives, not how much."""
        return self.ramp_ms > 0


LOADS = (
    Load("p500", 500, "mock-20-100", stream=True, ramp_ms=2000, warmup=4.5, seconds=6.0),
    Load("p1000", 1000, "mock-20-100", stream=True, ramp_ms=2000, warmup=4.5, seconds=6.0),
    Load("ns1", 1, "mock-64-0", stream=False),
    Load("ns32", 32, "mock-64-0", stream=False),
    Load("ns128", 128, "mock-64-0", stream=False),
    Load("st32", 32, "mock-64-0", stream=True),
    Load("st200", 200, "mock-64-0", stream=True, warmup=1.0),
)
WARM_UP = (
    Load("warm-ns", 8, "mock-64-0", stream=False, warmup=0.2, seconds=0.8),
    Load("warm-st", 8, "mock-64-0", stream=True, warmup=0.2, seconds=0.8),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. Times in ms, shares in cores, memory in KiB."""

    requests: int
    requests_per_s: float
    events_per_s: float
    p50_ms: float
    p99_ms: float
    first_event_p50_ms: float
    first_event_p99_ms: float
    transit_p50_ms: float
    transit_p99_ms: float
    cpu: float
    rss_kb: int
    helpers_cpu: float  # mock, worker and Redis
    generator_cpu: float
    foreign_cpu: float  # others' work on the server core; 0 where it cannot be told apart
    failed: int  # errors and incomplete streams
    unfinished: int
    first_error: str
    drain_s: float = 0.0

    @property
    def cpu_ms_per_request(self) -> float:
        return self.cpu * 1e3 / self.requests_per_s if self.requests_per_s else 0.0

    @property
    def cpu_us_per_event(self) -> float:
        return self.cpu * 1e6 / self.events_per_s if self.events_per_s else 0.0

    @property
    def whole(self) -> bool:
        return not self.failed and not self.unfinished and self.requests > 0


def shortened(load: Load, *, seconds: float) -> Load:
    """The same load with another window; paced loads keep at least two streams' length."""
    return replace(load, seconds=max(seconds, 4.0) if load.paced else seconds)


def generator_command(stack: Stack, target: Target, load: Load) -> list[str]:
    """The load generator's command line for one run."""
    command = [str(stack.loadgen), "-u", target.url.removeprefix("http://") + CHAT_PATH]
    command += [
        "-H",
        f"Authorization: Bearer {target.key}",
        "-b",
        chat_body(load.model, stream=load.stream).decode(),
    ]
    command += ["-c", str(load.connections), "-w", str(load.warmup), "-d", str(load.seconds)]
    command += ["-r", str(load.ramp_ms), "-g", str(GENERATOR_GRACE_S)]
    if load.stream:
        command.append("-s")
    if pids := target.pids():
        command += ["-p", ",".join(map(str, pids))]
    command += ["-q", ",".join(map(str, stack.helper_pids()))]
    return on_core(stack.cores.load, command)


def run_load(stack: Stack, target: Target, load: Load) -> Sample:
    """One run of the generator against a calm target."""
    if stack.database is not None:
        stack.database.move_off()
    pids, core = target.pids(), stack.cores.server
    busy, used, started = core_busy_seconds(core), cpu_seconds(pids), time.monotonic()
    done = subprocess.run(
        generator_command(stack, target, load), capture_output=True, text=True, check=False, timeout=300
    )
    elapsed = time.monotonic() - started
    foreign = (core_busy_seconds(core) - busy - (cpu_seconds(pids) - used)) / elapsed
    stack.check_alive()
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise HarnessError(f"the load generator said: {done.stdout[-300:]}{done.stderr[-300:]}") from error
    told_apart = pids and target is not stack.mock and not stack.cores.shared
    return sample_of(answer, foreign_cpu=max(foreign, 0.0) if told_apart else 0.0)


def sample_of(answer: dict[str, Any], *, foreign_cpu: float = 0.0) -> Sample:
    """The generator's JSON in our words. Every request that did not end well counts once in `failed`."""
    return Sample(
        requests=answer["req"],
        requests_per_s=answer["rps"],
        events_per_s=answer["evps"],
        p50_ms=answer["lat_p50"],
        p99_ms=answer["lat_p99"],
        first_event_p50_ms=answer["ttft_p50"],
        first_event_p99_ms=answer["ttft_p99"],
        transit_p50_ms=answer["tr_p50"],
        transit_p99_ms=answer["tr_p99"],
        cpu=answer["cpu"],
        rss_kb=int(answer["rss_mb"] * 1024),
        helpers_cpu=answer["mockcpu"],
        generator_cpu=answer["lgcpu"],
        foreign_cpu=foreign_cpu,
        failed=answer["err"],  # the generator counts incomplete streams among its errors
        unfinished=answer["unfinished"],
        first_error=answer["firsterr"],
    )


def settle(stack: Stack, target: Target) -> float:
    """Waits until target, mock and worker are calm: nothing of this load may fall into the next. Seconds waited."""
    started = time.monotonic()
    while time.monotonic() - started < CALM_LIMIT_S:
        pids = [*target.pids(), *stack.helper_pids()]
        before, since = cpu_seconds(pids), time.monotonic()
        time.sleep(CALM_WINDOW_S)
        if (cpu_seconds(pids) - before) / (time.monotonic() - since) < CALM_SHARE:
            break
    return time.monotonic() - started


def warm_up(stack: Stack, target: Target) -> None:
    """Light traffic, then calm."""
    for load in WARM_UP:
        run_load(stack, target, load)
    settle(stack, target)


def measure(stack: Stack, target: Target, load: Load) -> Sample:
    """One run and the calm after it."""
    sample = run_load(stack, target, load)
    return replace(sample, drain_s=settle(stack, target))
