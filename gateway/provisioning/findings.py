"""What a run found out. No database; never holds a secret but the API keys that it has made."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

SHOWN_LETTERS = 120


class Verb(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Problem:
    """path: where in the file, as `channels[0].base_url`; empty = the file itself."""

    path: str
    reason: str

    def __str__(self) -> str:
        """One line that every terminal can show: names out of the file may hold anything."""
        text = f"{self.path}: {self.reason}" if self.path else self.reason
        return "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
        )


class ProvisioningRefused(Exception):
    """Nothing was changed. One line a problem, each beginning with the file's name."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))


@dataclass(frozen=True, slots=True)
class Change:
    """what: `channel main`. details: one text a field, `priority 10 → 20`."""

    verb: Verb
    what: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """An API key that this run made; its text exists nowhere else."""

    tenant: str
    name: str
    plain: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Report:
    """is_dry_run: nothing of it was kept, and `new_api_keys` is empty."""

    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    new_api_keys: tuple[NewApiKey, ...]
    is_dry_run: bool

    @property
    def has_changes(self) -> bool:
        return any(change.verb is not Verb.UNCHANGED for change in self.changes)


class Findings:
    """Collects during one run. `problems` may hold some from the start: then the run is a rehearsal."""

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.changes: list[Change] = []
        self.warnings: list[str] = []
        self.problems: list[Problem] = list(problems)
        self.new_api_keys: list[NewApiKey] = []

    def problem(self, path: str, reason: str) -> None:
        self.problems.append(Problem(path, reason))

    def created(self, what: str, details: Sequence[str] = ()) -> None:
        self.changes.append(Change(Verb.CREATE, what, tuple(details)))

    def compared(self, what: str, details: Sequence[str]) -> None:
        """Changed, if there are details; else unchanged."""
        verb = Verb.CHANGE if details else Verb.UNCHANGED
        self.changes.append(Change(verb, what, tuple(details)))

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """A service's ValidationError becomes a problem at the path, or at the fields under it."""
        try:
            yield
        except ValidationError as error:
            self.problems += _problems(path, error)

    def report(self, *, is_dry_run: bool) -> Report:
        return Report(
            changes=tuple(self.changes),
            warnings=tuple(self.warnings),
            new_api_keys=() if is_dry_run else tuple(self.new_api_keys),
            is_dry_run=is_dry_run,
        )


def shown(value: object) -> str:
    """A value as the file would write it, cut to a line."""
    text = _text(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 1]}…"


def _text(value: object) -> str:  # noqa: PLR0911  one line a type
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return str(value) or '""'
        case Decimal():
            return f"{value.normalize():f}"
        case float():
            return f"{value:.15g}"
        case datetime.datetime():
            return value.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{name}: {_text(part)}" for name, part in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_text(part) for part in value) + "]"
        case _:
            return str(value)


def _problems(path: str, error: ValidationError) -> list[Problem]:
    if not hasattr(error, "error_dict"):
        return [Problem(path, _plain(message)) for message in error.messages]
    return [
        Problem(path if name == NON_FIELD_ERRORS else f"{path}.{name}", _plain(message))
        for name, messages in error.message_dict.items()
        for message in messages
    ]


def _plain(message: str) -> str:
    return message.removesuffix(".")
