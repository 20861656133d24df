"""The table of behaviours: a model name chooses one, with numbers in the name as parameters.

Must not import: Django, aiohttp.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.simulator.exchange import Exchange

Run = Callable[..., Awaitable[None]]

# The files of the behaviours, in the order a reader wants them, with a heading for each.
HEADINGS = {
    "plain": "Good answers",
    "timing": "Slow and silent",
    "endings": "Wrong endings",
    "statuses": "Refusals",
    "errors": "Errors inside a 200",
    "framing": "Framing and content types",
    "usage": "Usage",
    "content": "Content",
    "tools": "Tool calls",
    "wire": "HTTP itself",
    "anthropic": "Anthropic's shape only",
    "gemini": "Gemini's shape only",
}
_NUMBER = r"(\d+(?:\.\d+)?)"
_PLACEHOLDER = re.compile(r"\\\{\w+\\\}")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row: `pattern` with `{n}` for numbers, an example, one line of meaning, its file, what runs."""

    pattern: str
    example: str
    meaning: str
    subject: str
    run: Run
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A behaviour with the numbers of one model name."""

    behaviour: Behaviour
    numbers: tuple[float, ...]

    async def __call__(self, exchange: Exchange) -> None:
        """Answer the request."""
        await self.behaviour.run(exchange, *self.numbers)


_TABLE: list[Behaviour] = []


def behaviour(pattern: str, meaning: str, *, example: str = "") -> Callable[[Run], Run]:
    """Register a coroutine function under a name pattern; it takes the exchange and the numbers."""

    def register(run: Run) -> Run:
        regex = re.compile(_PLACEHOLDER.sub(lambda _: _NUMBER, re.escape(pattern)))
        subject = run.__module__.rpartition(".")[2]
        _TABLE.append(Behaviour(pattern, example or pattern, meaning, subject, run, regex))
        return run

    return register


def all_behaviours() -> tuple[Behaviour, ...]:
    """All rows by subject, and within a subject in the order of its file."""
    return tuple(sorted(_TABLE, key=lambda row: tuple(HEADINGS).index(row.subject)))


def plain_name(model: str) -> str:
    """The part of a model name that chooses: `models/a/echo@b` is `echo`."""
    return model.rsplit("/", 1)[-1].partition("@")[0]


def choose(model: str) -> Chosen:
    """The behaviour of a model name; a name that is not in the table echoes."""
    name = plain_name(model)
    for row in _TABLE:
        if match := row.regex.fullmatch(name):
            return Chosen(row, tuple(float(number) for number in match.groups()))
    return Chosen(next(row for row in _TABLE if row.pattern == "echo"), ())
