"""A price file → rows: everything or nothing."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.price_files.litellm import is_litellm, litellm_prices
from gateway.price_files.tables import (
    MAX_BYTES,
    SECTIONS,
    Format,
    RawEntry,
    UnreadablePriceFile,
    csv_entries,
    data_read,
    entries_of,
    format_of,
)
from gateway.provisioning.all_or_nothing import carried_out, file_text
from gateway.provisioning.findings import Findings, Problem, ProvisioningRefused, Report
from gateway.provisioning.prices import (
    cost_prices_provision,
    group_multipliers_provision,
    prices_provision,
)
from gateway.provisioning.reading import did_you_mean, reason_of, unkeepable
from gateway.provisioning.schema import CostPriceEntry, Entry, GroupMultiplierEntry, PriceEntry

EntryT = TypeVar("EntryT", bound=Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class LitellmOptions:
    """What LiteLLM's list does not say. only: a name or pattern of models."""

    only: str = "*"
    group: str = ""
    effective_from: datetime.datetime | None = None

    @property
    def common(self) -> Mapping[str, object]:
        fields = {"group": self.group, "effective_from": self.effective_from}
        return {name: value for name, value in fields.items() if value}


def import_file(path: Path, *, is_dry_run: bool = False, litellm: LitellmOptions | None = None) -> Report:
    """litellm: None = whatever the file is, as it is; a price file of our own refuses such options.

    Errors: ProvisioningRefused with every problem; then nothing was changed.
    """
    try:
        findings, entries = _read(path, litellm)
    except UnreadablePriceFile as error:
        raise ProvisioningRefused(str(path), error.problems) from None
    # Before the transaction, which keeps others from changing configuration meanwhile.
    asked = _asked(entries, findings)
    return carried_out(partial(_carry_out, asked), findings, name=str(path), is_dry_run=is_dry_run)


def _read(path: Path, litellm: LitellmOptions | None) -> tuple[Findings, list[RawEntry]]:
    kind = format_of(path)
    text = file_text(path, bytes_max=MAX_BYTES)
    data = None if kind is Format.CSV else data_read(text, kind)
    if isinstance(data, dict) and is_litellm(data):
        options = litellm or LitellmOptions()
        found = litellm_prices(data, only=options.only, common=options.common)
        findings = Findings(found.problems)
        findings.warnings += found.warnings()
        return findings, found.entries
    entries = list(csv_entries(text) if kind is Format.CSV else entries_of(data))
    if litellm is not None:
        reason = "is no list of LiteLLM's: its entries say themselves what group and start they have"
        raise UnreadablePriceFile(Problem("", reason))
    return Findings(), entries


@dataclass(frozen=True, slots=True)
class _Asked:
    """The sound entries of a file, each with its place."""

    prices: list[tuple[str, PriceEntry]]
    cost_prices: list[tuple[str, CostPriceEntry]]
    group_multipliers: list[tuple[str, GroupMultiplierEntry]]


def _carry_out(asked: _Asked, findings: Findings) -> None:
    prices_provision(asked.prices, findings, is_whole=True)
    cost_prices_provision(asked.cost_prices, findings, is_whole=True)
    group_multipliers_provision(asked.group_multipliers, findings)


def _asked(entries: Iterable[RawEntry], findings: Findings) -> _Asked:
    sections: dict[str, list[RawEntry]] = {name: [] for name in SECTIONS}
    for entry in entries:
        sections[entry.section].append(entry)
    return _Asked(
        _sound(sections["prices"], PriceEntry, findings),
        _sound(sections["cost_prices"], CostPriceEntry, findings),
        _sound(sections["group_multipliers"], GroupMultiplierEntry, findings),
    )


def _sound(entries: Iterable[RawEntry], schema: type[EntryT], findings: Findings) -> list[tuple[str, EntryT]]:
    """Entries that fit the schema; the others are told."""
    sound = []
    for entry in entries:
        problems = [
            Problem(_place(entry, location), reason) for location, reason in unkeepable(entry.fields, ())
        ]
        try:
            value = schema.model_validate(dict(entry.fields))
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
            problems += [_problem(entry, detail, schema) for detail in details]
        else:
            if not problems:
                sound.append((entry.where, value))
        findings.problems += problems
    return sound


def _problem(entry: RawEntry, detail: ErrorDetails, schema: type[Entry]) -> Problem:
    name = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "extra_forbidden":
        return Problem(_place(entry, (name,)), f"unknown field{did_you_mean(name, schema.model_fields)}")
    return Problem(_place(entry, detail["loc"]), reason_of(detail))


def _place(entry: RawEntry, location: Sequence[str | int]) -> str:
    return ".".join([entry.where, *(str(part)[:60] for part in location[:1])])
