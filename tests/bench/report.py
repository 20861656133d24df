"""What a run says: one table, memory, noise, verdicts; and the same as JSON with machine and date."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.figures import (
    FLOOR,
    REFERENCE,
    Figures,
    Verdict,
    added,
    cpu_ratios,
    middle,
    ratios,
    render_table,
)
from tests.bench.loads import Load, Sample
from tests.bench.stack import UNBILLED

HEADER = (
    "load",
    "target",
    "req/s",
    "events/s",
    "ratio to raw",
    "by CPU",
    "p50 ms",
    "p99 ms",
    "+p50",
    "+p99",
    "first p50",
    "first p99",
    "+first",
    "transit p99",
    "CPU %",
    "ms/req",
    "µs/event",
    "load core %",
    "failed",
)
FULL_CORE = 0.95
QUIET = 0.05


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _row(figures: Figures, load: Load, target: str) -> list[str]:
    samples, runs = figures.samples, figures.samples[target][load.name]
    is_floor = target == FLOOR

    def cell(figure: Callable[[Sample], float], digits: int = 2, *, shown: bool = True) -> str:
        return _number(middle(runs, figure), digits) if shown else ""

    def over(figure: Callable[[Sample], float], *, shown: bool = True) -> str:
        return "" if is_floor or not shown else _number(added(samples, target, load, figure))

    is_judged = target not in {FLOOR, REFERENCE}
    ratio = ratios(samples, target, load) if is_judged else None
    by_cpu = cpu_ratios(samples, target, load) if is_judged else None
    return [
        load.name,
        target,
        cell(lambda s: s.requests_per_s, 0),
        cell(lambda s: s.events_per_s, 0, shown=load.stream),
        str(ratio) if ratio else "",
        _number(by_cpu.median) if by_cpu else "",
        cell(lambda s: s.p50_ms),
        cell(lambda s: s.p99_ms),
        over(lambda s: s.p50_ms),
        over(lambda s: s.p99_ms),
        cell(lambda s: s.first_event_p50_ms, shown=load.stream),
        cell(lambda s: s.first_event_p99_ms, shown=load.stream),
        over(lambda s: s.first_event_p50_ms, shown=load.stream),
        cell(lambda s: s.transit_p99_ms, shown=load.stream),
        cell(lambda s: s.cpu * 100, 0),
        cell(lambda s: s.cpu_ms_per_request, 3),
        cell(lambda s: s.cpu_us_per_event, 1, shown=load.stream),
        cell(lambda s: (s.helpers_cpu + s.generator_cpu) * 100, 0),
        str(sum(run.failed + run.unfinished for run in runs)),
    ]


def main_table(figures: Figures) -> str:
    """Loads in their order, targets below each other, medians over the rounds."""
    rows = [
        _row(figures, load, target)
        for load in figures.loads.values()
        for target, by_load in figures.samples.items()
        if by_load.get(load.name)
    ]
    return render_table(HEADER, rows)


def memory_lines(figures: Figures) -> list[str]:
    return [
        f"{target}: {memory.kb_per_stream:.1f} KB per open stream over {memory.idle_kb / 1024:.0f} MB"
        for target, memory in figures.memory.items()
    ]


def remarks(figures: Figures) -> list[str]:
    """What weakens the figures or went wrong, in words."""
    lines = []
    for target, by_load in figures.samples.items():
        for load, runs in by_load.items():
            bad = [run for run in runs if not run.whole]
            if bad:
                error = next((run.first_error for run in bad if run.first_error), "no answer to show")
                lines.append(
                    f"{target} {load}: {sum(run.failed for run in bad)} failed or cut, "
                    f"{sum(run.unfinished for run in bad)} unfinished; first: {error}"
                )
            if (helpers := middle(runs, lambda s: s.helpers_cpu + s.generator_cpu)) and helpers > FULL_CORE:
                lines.append(
                    f"{target} {load}: the load core was full ({helpers:.0%}): the target may be faster"
                )
            if (waited := max(run.drain_s for run in runs)) > 5:
                lines.append(f"{target} {load}: needed up to {waited:.0f} s to become calm again")
    return lines


def billing_lines(figures: Figures) -> list[str]:
    """What admission and settlement add, where a gateway without them ran beside."""
    lines = []
    for load in figures.loads.values():
        pairs = [(figures.samples.get(name, {}).get(load.name, ())) for name in ("gateway", UNBILLED)]
        p50_ms, cpu_ms = (
            [middle(runs, figure) for runs in pairs]
            for figure in (lambda s: s.p50_ms, lambda s: s.cpu_ms_per_request)
        )
        if None not in {*p50_ms, *cpu_ms}:
            lines.append(
                f"{load.name}: p50 {p50_ms[1]:.2f} → {p50_ms[0]:.2f} ms, "
                f"CPU a request {cpu_ms[1]:.3f} → {cpu_ms[0]:.3f} ms"
            )
    return lines


def noise_line(figures: Figures) -> str:
    """Others' work on the measured core."""
    shares = [
        run.foreign_cpu for by_load in figures.samples.values() for runs in by_load.values() for run in runs
    ]
    mean = sum(shares) / len(shares)
    advice = "" if mean < QUIET else ": too busy for figures, look at the ratio by CPU and measure again"
    return f"others on the server core: mean {mean:.0%}, worst run {max(shares):.0%}{advice}"


def print_report(figures: Figures, judged: dict[str, list[Verdict]], say: Callable[[str], None]) -> None:
    say("")
    say(main_table(figures))
    for title, lines in (
        ("Memory", memory_lines(figures)),
        ("Without and with admission and settlement", billing_lines(figures)),
        ("Remarks", remarks(figures)),
        ("Noise", [noise_line(figures)]),
    ):
        if lines:
            say(f"\n{title}")
            for line in lines:
                say(f"  {line}")
    clean = all(
        run.whole for by_load in figures.samples.values() for runs in by_load.values() for run in runs
    )
    say("\nEvery answer was whole." if clean else "\nNOT every answer was whole: see the remarks.")
    for target, verdicts in judged.items():
        say(f"\nGoals for {target}")
        for verdict in verdicts:
            say(f"  {verdict}")


def write_json(
    folder: Path,
    figures: Figures,
    judged: dict[str, list[Verdict]],
    machine: dict[str, object],
    options: object,
) -> Path:
    """results/bench-DATE.json: machine, options, every sample of every round, verdicts."""
    folder.mkdir(exist_ok=True)
    taken = datetime.now(UTC)
    path = folder / f"bench-{taken:%Y%m%d-%H%M%S}.json"
    document = {
        "taken_at": taken.isoformat(timespec="seconds"),
        "machine": machine,
        "options": options,
        "loads": {name: asdict(load) for name, load in figures.loads.items()},
        "memory": {target: asdict(memory) for target, memory in figures.memory.items()},
        "samples": {
            target: {load: _as_dicts(runs) for load, runs in by_load.items()}
            for target, by_load in figures.samples.items()
        },
        "verdicts": {
            target: [asdict(verdict) for verdict in verdicts] for target, verdicts in judged.items()
        },
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def _as_dicts(runs: Sequence[Sample]) -> list[dict[str, object]]:
    return [asdict(run) for run in runs]
