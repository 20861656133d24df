"""Text of a price file ↔ entries. Nothing here knows what an entry may hold. No database.

CSV has one line an entry, whose column `section` says what it is (missing or empty: `prices`); `tiers` and
`image_rates` are JSON in their cells, an empty cell is a missing field.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

import yaml

from gateway.provisioning.findings import Problem
from gateway.provisioning.yaml_text import UnreadableYaml, yaml_data

MAX_BYTES = 16 * 1024 * 1024
SECTIONS = ("prices", "cost_prices", "group_multipliers")
_JSON_CELLS = ("tiers", "image_rates")


class Format(StrEnum):
    YAML = "yaml"
    JSON = "json"
    CSV = "csv"


_FORMATS = {".yaml": Format.YAML, ".yml": Format.YAML, ".json": Format.JSON, ".csv": Format.CSV}


@dataclass(frozen=True, slots=True)
class RawEntry:
    """where: as messages name it, `prices[3]` or `line 5`. section: one of `SECTIONS`."""

    where: str
    section: str
    fields: Mapping[str, object]


class UnreadablePriceFile(Exception):
    """The text is no price file at all."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


def format_of(path: Path) -> Format:
    """By the name's ending. Errors: UnreadablePriceFile."""
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise UnreadablePriceFile(Problem("", f"the name must end with one of {', '.join(_FORMATS)}"))
    return found


def data_read(text: str, kind: Format) -> object:
    """YAML or JSON → plain data; JSON's fractions as decimals, exactly as written.

    Errors: UnreadablePriceFile.
    """
    try:
        return yaml_data(text) if kind is Format.YAML else _json(text)
    except UnreadableYaml as error:
        raise UnreadablePriceFile(*error.problems) from None


def entries_of(data: object) -> Iterator[RawEntry]:
    """The entries of a mapping of sections. Errors: UnreadablePriceFile."""
    if not isinstance(data, dict) or not data:
        raise UnreadablePriceFile(Problem("", f"a mapping with {', '.join(SECTIONS)} is expected"))
    for section, entries in data.items():
        if section not in SECTIONS:
            reason = f"is none of {', '.join(SECTIONS)}"
            raise UnreadablePriceFile(Problem(str(section)[:60], reason))
        if not isinstance(entries, list):
            raise UnreadablePriceFile(Problem(section, "a list is expected"))
        for at, fields in enumerate(entries):
            where = f"{section}[{at}]"
            if not isinstance(fields, dict):
                raise UnreadablePriceFile(Problem(where, "a mapping is expected"))
            yield RawEntry(where, section, fields)


def csv_entries(text: str) -> Iterator[RawEntry]:
    """Errors: UnreadablePriceFile."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(reader, [])
        _check_header(header)
        for row in reader:
            if any(row):
                yield _csv_entry(f"line {reader.line_num}", header, row)
    except csv.Error as error:
        raise UnreadablePriceFile(Problem(f"line {reader.line_num}", f"is no CSV: {error}")) from None


def data_text(sections: Mapping[str, Sequence[Mapping[str, object]]], kind: Format) -> str:
    """sections: section → entries, decimals among their values. The inverse of `data_read`."""
    if kind is Format.JSON:
        return json.dumps(sections, indent=2, ensure_ascii=False, default=_plain) + "\n"
    return yaml.dump(
        dict(sections), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )


def csv_text(entries: Iterable[tuple[str, Mapping[str, object]]], columns: Sequence[str]) -> str:
    """entries: section, fields. The inverse of `csv_entries`."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["section", *columns])
    for section, fields in entries:
        writer.writerow([section, *(_cell(name, fields.get(name)) for name in columns)])
    return out.getvalue()


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_float=Decimal, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UnreadablePriceFile(Problem(where, f"is no JSON: {error.msg}")) from None
    except RecursionError:
        raise UnreadablePriceFile(Problem("", "is nested too deeply")) from None
    except ValueError:
        # More digits than Python reads as one number.
        raise UnreadablePriceFile(Problem("", "holds a number that is none")) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((double, _times),) = Counter(name for name, _ in pairs).most_common(1)
        raise UnreadablePriceFile(Problem("", f"“{double[:60]}” is there twice in one object"))
    return found


def _no_constant(name: str) -> object:
    raise UnreadablePriceFile(Problem("", f"holds {name}, which is no number"))


def _check_header(header: Sequence[str]) -> None:
    if not any(header):
        raise UnreadablePriceFile(Problem("line 1", "a line with the names of the columns is expected"))
    for name in header:
        if not name.strip() or header.count(name) > 1:
            raise UnreadablePriceFile(Problem("line 1", f"column “{name[:60]}” is empty or there twice"))


def _csv_entry(where: str, header: Sequence[str], row: Sequence[str]) -> RawEntry:
    if len(row) > len(header):
        raise UnreadablePriceFile(Problem(where, f"has {len(row)} cells, the first line {len(header)}"))
    cells = {name: cell for name, cell in zip(header, row, strict=False) if cell != ""}
    section = cells.pop("section", SECTIONS[0])
    if section not in SECTIONS:
        raise UnreadablePriceFile(Problem(f"{where}.section", f"is none of {', '.join(SECTIONS)}"))
    fields: dict[str, object] = dict(cells)
    for name in _JSON_CELLS:
        if name in cells:
            try:
                fields[name] = _json(cells[name])
            except UnreadablePriceFile as error:
                raise UnreadablePriceFile(Problem(f"{where}.{name}", error.problems[0].reason)) from None
    return RawEntry(where, section, fields)


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _JSON_CELLS:
        return json.dumps(value, default=_plain) if value else ""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _plain(value: object) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class _Dumper(yaml.SafeDumper):
    """Decimals as plain numbers; no aliases, which no person would want to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  its hook
        return True


def _decimal(dumper: yaml.SafeDumper, value: Decimal) -> yaml.ScalarNode:
    text = f"{value:f}"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{'float' if '.' in text else 'int'}", text)


_Dumper.add_representer(Decimal, _decimal)
