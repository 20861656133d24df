"""`make bench`: the gateway in production settings against a raw pass-through and the direct way.

Each server runs alone on one core; mock, load generator, worker and stores share the other. Rounds are
interleaved, so that what disturbs one target disturbs its reference too. Prints one table, writes JSON.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script: its own folder is the path

from tests.bench.figures import FLOOR, REFERENCE, Figures, verdicts
from tests.bench.loads import LOADS, Load, Sample, measure, shortened, warm_up
from tests.bench.machine import choose_cores, machine_info, raise_file_limit
from tests.bench.open_streams import open_memory
from tests.bench.processes import HarnessError, Processes, say
from tests.bench.profiling import profile
from tests.bench.report import print_report, write_json
from tests.bench.stack import (
    BENCH_DIR,
    ROOT,
    UNBILLED,
    Stack,
    Target,
    add_gateway,
    add_raw,
    add_running,
    parse_pairs,
    start_mock,
)

RESULTS_DIR = BENCH_DIR / "results"


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round of short runs: a look, not a figure")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default %(default)s)")
    parser.add_argument(
        "--loads", default="", help=f"comma-separated, of {','.join(load.name for load in LOADS)}"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="window of one run (default %(default)s)")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a goal is missed or was not measured"
    )
    parser.add_argument("--profile", action="store_true", help="only profile the gateway under ns32 and st32")
    parser.add_argument(
        "--without-billing",
        action="store_true",
        help="also a gateway without admission and settlement: tells what both add",
    )
    parser.add_argument("--no-gateway", action="store_true", help="raw pass-through and --target only")
    parser.add_argument(
        "--target", action="append", default=[], metavar="NAME=URL", help="a server that runs already"
    )
    parser.add_argument(
        "--target-pid", action="append", default=[], metavar="NAME=PID", help="its process, for CPU"
    )
    parser.add_argument("--key", default="none", help="API key for the --target servers")
    parser.add_argument(
        "--mock-port", type=int, default=0, help="fixed port of the mock, for --target servers"
    )
    parser.add_argument(
        "--hold", action="store_true", help="start everything, say where it is, wait for Ctrl-C"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, min(options.seconds, 1.0)
    return options


def choose_loads(names: str, seconds: float) -> dict[str, Load]:
    """The loads asked for, in the fixed order. Raises HarnessError for an unknown name."""
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    if unknown := wanted - {load.name for load in LOADS}:
        raise HarnessError(f"unknown load: {', '.join(sorted(unknown))}")
    return {
        load.name: shortened(load, seconds=seconds) for load in LOADS if not wanted or load.name in wanted
    }


def start(processes: Processes, options: argparse.Namespace) -> Stack:
    raise_file_limit()
    cores = choose_cores()
    if cores.shared:
        say("Only one core may be used: servers and load share it, the figures say little.")
    os.sched_setaffinity(0, {cores.load})
    stack = start_mock(processes, cores, options.mock_port)
    add_raw(stack)
    if not options.no_gateway:
        say("Starting the gateway …")
        add_gateway(stack, also_unbilled=options.without_billing)
    pids = parse_pairs(options.target_pid, "--target-pid")
    for name, url in parse_pairs(options.target, "--target").items():
        add_running(stack, name, url, options.key, int(pids.get(name, 0)))
    return stack


def measure_all(stack: Stack, loads: dict[str, Load], rounds: int) -> Figures:
    """Round by round and load by load: direct, then each target."""
    contestants: list[Target] = [stack.mock, *stack.targets]
    for target in contestants:
        warm_up(stack, target)
    memory = {target.name: open_memory(target) for target in stack.targets if target.pids()}
    samples: dict[str, dict[str, list[Sample]]] = {
        target.name: {name: [] for name in loads} for target in contestants
    }
    for number in range(1, rounds + 1):
        for load in loads.values():
            started = time.monotonic()
            for target in contestants:
                samples[target.name][load.name].append(measure(stack, target, load))
            say(f"round {number}/{rounds}  {load.name:<6} {time.monotonic() - started:5.1f} s")
    return Figures(samples, loads, memory)


def hold(stack: Stack) -> None:
    """For rehearsals by hand: everything stays up until Ctrl-C."""
    for target in (stack.mock, *stack.targets):
        say(f"{target.name}: --target {target.url} --pid {(target.pids() or [0])[0]} --key {target.key}")
    say("Ctrl-C ends everything.")
    while True:
        time.sleep(1)
        stack.check_alive()


def run(options: argparse.Namespace) -> int:
    loads = choose_loads(options.loads, options.seconds)
    machine = machine_info(ROOT)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-logs-") as logs, Processes(Path(logs)) as processes:
        stack = start(processes, options)
        if options.hold:
            hold(stack)
        if options.profile:
            for target in stack.targets:
                if target.name != REFERENCE or options.no_gateway:
                    profile(stack, target, RESULTS_DIR)
            return 0
        figures = measure_all(stack, loads, options.rounds)
    unjudged = {FLOOR, REFERENCE, UNBILLED}
    judged = {name: verdicts(figures, name) for name in figures.samples if name not in unjudged}
    print_report(figures, judged, say)
    say(f"\nwritten: {write_json(RESULTS_DIR, figures, judged, machine, vars(options) | {'key': '…'})}")
    missed = any(verdict.passed is not True for lines in judged.values() for verdict in lines)
    return 1 if options.check and missed else 0


def main() -> int:
    options = read_options(sys.argv[1:])
    try:
        return run(options)
    except HarnessError as error:
        say(f"bench: {error}")
        return 2
    except KeyboardInterrupt:
        say("\nbench: interrupted, everything ended")
        return 130


if __name__ == "__main__":
    sys.exit(main())
