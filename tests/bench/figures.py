"""From samples to statements: medians, ratios, targets and the table. Pure: no clock, no files, no processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.loads import Load, Sample
from tests.bench.open_streams import OpenMemory

FLOOR, REFERENCE = "direct", "raw"
FULL_DELIVERY = 0.98  # of what the upstream sends; the rest is the edge of the window

# samples[target name][load name] → one Sample a round
Samples = Mapping[str, Mapping[str, Sequence[Sample]]]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


def spread(values: Sequence[float]) -> Spread | None:
    """None where there is nothing to summarise."""
    return Spread(median(values), min(values), max(values)) if values else None


def middle(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> float | None:
    """The median of one figure over the rounds."""
    return median(figure(sample) for sample in samples) if samples else None


def rate(load: Load) -> Callable[[Sample], float]:
    """What a load is counted in: events for streams, requests otherwise."""
    return (lambda sample: sample.events_per_s) if load.stream else (lambda sample: sample.requests_per_s)


def cost(load: Load) -> Callable[[Sample], float]:
    """CPU time per event for streams, per request otherwise."""
    return (
        (lambda sample: sample.cpu_us_per_event)
        if load.stream
        else (lambda sample: sample.cpu_ms_per_request)
    )


def ratios(samples: Samples, target: str, load: Load, reference: str = REFERENCE) -> Spread | None:
    """Target / reference, round by round: what disturbed a round disturbed both."""
    mine, theirs = samples.get(target, {}).get(load.name, ()), samples.get(reference, {}).get(load.name, ())
    figure = rate(load)
    return spread([figure(a) / figure(b) for a, b in zip(mine, theirs, strict=False) if figure(b)])


def cpu_ratios(samples: Samples, target: str, load: Load, reference: str = REFERENCE) -> Spread | None:
    """Reference / target in CPU time per event or request: the same comparison, deaf to neighbours on the core."""
    mine, theirs = samples.get(target, {}).get(load.name, ()), samples.get(reference, {}).get(load.name, ())
    figure = cost(load)
    return spread([figure(b) / figure(a) for a, b in zip(mine, theirs, strict=False) if figure(a)])


def added(samples: Samples, target: str, load: Load, figure: Callable[[Sample], float]) -> float | None:
    """What a target adds to the direct way, in the figure's unit."""
    mine = middle(samples.get(target, {}).get(load.name, ()), figure)
    direct = middle(samples.get(FLOOR, {}).get(load.name, ()), figure)
    return None if mine is None or direct is None else mine - direct


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything a target is judged by."""

    samples: Samples
    loads: Mapping[str, Load]
    memory: Mapping[str, OpenMemory]

    def ratio(self, target: str, load: str) -> float | None:
        found = ratios(self.samples, target, self.loads[load]) if load in self.loads else None
        return found.median if found else None

    def added_p50_ms(self, target: str, load: str) -> float | None:
        return (
            added(self.samples, target, self.loads[load], lambda s: s.p50_ms) if load in self.loads else None
        )

    def delivered(self, target: str, load: str) -> float | None:
        found = ratios(self.samples, target, self.loads[load], FLOOR) if load in self.loads else None
        return found.median if found else None

    def median_of(self, target: str, load: str, figure: Callable[[Sample], float]) -> float | None:
        return middle(self.samples.get(target, {}).get(load, ()), figure)

    def kb_per_stream(self, target: str) -> float | None:
        return self.memory[target].kb_per_stream if target in self.memory else None

    def failures(self, target: str, _load: str = "") -> float | None:
        runs = [sample for rounds in self.samples.get(target, {}).values() for sample in rounds]
        return float(sum(run.failed + run.unfinished + (not run.requests) for run in runs)) if runs else None


@dataclass(frozen=True, slots=True)
class Goal:
    """One line to pass: `figure(figures, target)` must be at least or at most `bound`."""

    title: str
    figure: Callable[[Figures, str], float | None]
    bound: float
    at_least: bool

    def passed(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


GOALS = (
    Goal("ns32 requests/s, ratio to raw", lambda f, t: f.ratio(t, "ns32"), 0.4, at_least=True),
    Goal("ns1 added p50, ms", lambda f, t: f.added_p50_ms(t, "ns1"), 1.5, at_least=False),
    Goal("st32 events/s, ratio to raw", lambda f, t: f.ratio(t, "st32"), 0.6, at_least=True),
    Goal("p500 delivered, share", lambda f, t: f.delivered(t, "p500"), FULL_DELIVERY, at_least=True),
    Goal(
        "p500 first event p50, ms",
        lambda f, t: f.median_of(t, "p500", lambda s: s.first_event_p50_ms),
        5.0,
        at_least=False,
    ),
    Goal("p500 CPU, cores", lambda f, t: f.median_of(t, "p500", lambda s: s.cpu), 0.95, at_least=False),
    Goal("memory per open stream, KB", lambda f, t: f.kb_per_stream(t), 45.0, at_least=False),
    Goal("failed, cut or unfinished answers", lambda f, t: f.failures(t), 0.0, at_least=False),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`passed` is None where the figure was not taken."""

    title: str
    value: float | None
    bound: float
    at_least: bool
    passed: bool | None

    def __str__(self) -> str:
        word = {True: "pass", False: "FAIL", None: "  - "}[self.passed]
        value = "not measured" if self.value is None else f"{self.value:.3g}"
        return f"{word}  {self.title}: {value} ({'≥' if self.at_least else '≤'} {self.bound:g})"


def verdicts(figures: Figures, target: str) -> list[Verdict]:
    """All goals for one target, in their order."""
    judged = []
    for goal in GOALS:
        value = goal.figure(figures, target)
        passed = None if value is None else goal.passed(value)
        judged.append(Verdict(goal.title, value, goal.bound, goal.at_least, passed))
    return judged


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text: the first two columns to the left, figures to the right; two spaces between."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
