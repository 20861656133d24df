"""`--profile`: where the gateway spends its time under ns32 and st32, as flame graphs and a self-time table."""

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.bench.loads import LOADS, Load, run_load, settle
from tests.bench.processes import Child, HarnessError, on_core, say
from tests.bench.stack import Stack, Target

PROFILED = ("ns32", "st32")
SAMPLES_PER_SECOND = 200
TOP = 20
WAITING = (
    "_worker (concurrent/futures/thread.py",
    "Condition.wait (threading.py",
    "wait (threading.py",
    "Event.wait (",
)


def _shares(counts: Counter[str]) -> list[tuple[str, float]]:
    return [(name, count / counts.total()) for name, count in counts.most_common()]


def self_times(raw: str) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """py-spy's raw stacks ("a;b;c 12" a line) → (shares by innermost, shares by outermost frame), most first.

    The outermost frame tells the main thread from the others.
    Threads that wait for work are left out: the profiler cannot always tell that they sleep.
    """
    leaves: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if stack and count.isdigit() and not frames[-1].startswith(WAITING):
            leaves[frames[-1]] += int(count)
            roots[frames[0]] += int(count)
    return _shares(leaves), _shares(roots)


def self_time_table(raw: str, top: int = TOP) -> str:
    leaves, roots = self_times(raw)
    lines = [f"{share:6.1%}  {frame}" for frame, share in leaves[:top]]
    return "\n".join(
        [*lines, "by outermost frame: " + ", ".join(f"{name} {share:.0%}" for name, share in roots)]
    )


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if not found:
        raise HarnessError("py-spy is not installed: it is in requirements/bench.txt")
    return found


def _record(stack: Stack, target: Target, load: Load, output: Path, form: str) -> None:
    """Runs the load with the profiler at its side; the profiler ends by itself."""
    pid = target.pids()[0]
    command = [
        _py_spy(),
        "record",
        "-p",
        str(pid),
        "-d",
        str(int(load.seconds)),
        "-r",
        str(SAMPLES_PER_SECOND),
    ]
    command += ["-f", form, "-o", str(output)]
    if form == "raw":
        command.append("--function")  # one frame a function, not one a line: self times add up
    profiler: Child = stack.processes.start(f"py-spy-{load.name}-{form}", on_core(stack.cores.load, command))
    run_load(stack, target, replace(load, seconds=load.seconds + 1))
    try:
        code = profiler.process.wait(60)
    except subprocess.TimeoutExpired:
        code = -1
    if code or not output.exists():
        raise HarnessError(
            f"py-spy failed (it needs the right to trace processes):\n{profiler.output_tail()}"
        )
    settle(stack, target)


def profile(stack: Stack, target: Target, folder: Path, seconds: float = 6.0) -> None:
    """Writes results/profile-LOAD.svg and .txt, prints the top of the self-time table."""
    folder.mkdir(exist_ok=True)
    for load in (replace(load, seconds=seconds) for load in LOADS if load.name in PROFILED):
        stem = folder / f"profile-{target.name}-{load.name}"
        _record(stack, target, load, stem.with_suffix(".svg"), "flamegraph")
        raw = stem.with_suffix(".raw")
        _record(stack, target, load, raw, "raw")
        table = self_time_table(raw.read_text(errors="replace"))
        stem.with_suffix(".txt").write_text(table + "\n")
        say(
            f"\n{target.name} under {load.name}: self time, top {TOP} (flame graph: {stem.with_suffix('.svg')})"
        )
        say(table)
