"""A file's text → what it asks for, with every problem that can be told without the database.

Entries that have a problem are left out of the result, so that the rest can be judged all the same.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.provisioning.findings import Problem
from gateway.provisioning.schema import ENTRIES, ProvisioningFile
from gateway.provisioning.yaml_text import MAX_BYTES, UnreadableYaml, yaml_data

Location = tuple[str | int, ...]

# `$${` stands for `${`; what else follows `${` is a slip and is told.
_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_UNKEEPABLE = {
    re.compile("\0"): "holds a NUL character, which no database keeps",
    re.compile("[\ud800-\udfff]"): "holds half of a surrogate pair, which is no character",
}
_REASONS = {
    "missing": "is missing",
    "string_type": "a text is expected, in quotes if it looks like a number or a switch",
    "list_type": "a list is expected",
    "dict_type": "a mapping is expected",
    "model_type": "a mapping is expected",
    "bool_type": "true or false is expected",
    "bool_parsing": "true or false is expected",
    "int_type": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "decimal_type": "a number is expected",
    "decimal_parsing": "a number is expected",
    "timezone_aware": "a time needs Z or an offset, as 2026-01-31T00:00:00Z",
    "invalid_key": "every name must be a text: put it in quotes",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """asked: the sound entries. policy_names, channel_names: those the file mentions, unsound ones too."""

    asked: ProvisioningFile
    problems: tuple[Problem, ...]
    policy_names: frozenset[str]
    channel_names: frozenset[str]
    positions: Mapping[str, tuple[int, ...]]
    """Section → where in the file each entry of `asked` stands."""


def read_text(text: str, environ: Mapping[str, str]) -> Reading:
    """Raises UnreadableYaml when the text is no such file at all."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UnreadableYaml(Problem("", f"is larger than {MAX_BYTES} bytes"))
    data = yaml_data(text)
    if not isinstance(data, dict):
        sections = ", ".join(ProvisioningFile.model_fields)
        raise UnreadableYaml(Problem("", f"a mapping with {sections} is expected"))
    found: dict[Location, str] = {}
    data = {name: _substituted(part, environ, found, (name,)) for name, part in data.items()}
    for location, reason in (*unkeepable(data, ()), *_schema_problems(data)):
        found.setdefault(location, reason)
    for location, reason in _repeats(data):
        found.setdefault(location, reason)
    sound, positions = _sound(data, found)
    return Reading(
        asked=ProvisioningFile.model_validate(sound),
        problems=tuple(Problem(_path(location), reason) for location, reason in found.items()),
        policy_names=frozenset(_names(data.get("stream_policies"))),
        channel_names=frozenset(_names(data.get("channels"))),
        positions=positions,
    )


def _substituted(
    value: object, environ: Mapping[str, str], found: dict[Location, str], location: Location
) -> object:
    if isinstance(value, dict):
        return {name: _substituted(part, environ, found, (*location, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [_substituted(part, environ, found, (*location, at)) for at, part in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def put_in(match: re.Match[str]) -> str:
        name = match[1]
        if match[0] == "$${":
            return "${"
        if name is None:
            found[location] = "after ${ a name and } are expected; write $${ for a plain ${"
        elif name not in environ:
            found[location] = f"the environment variable {name} is not set"
        return environ.get(name or "", "")

    return _REFERENCE.sub(put_in, value)


def unkeepable(value: object, location: Location) -> Iterable[tuple[Location, str]]:
    """Texts, and names of fields, that no row could hold."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from unkeepable(name, (*location, name))
            yield from unkeepable(part, (*location, name))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from unkeepable(part, (*location, at))
    elif isinstance(value, str):
        yield from ((location, reason) for pattern, reason in _UNKEEPABLE.items() if pattern.search(value))


def _schema_problems(data: object) -> Iterable[tuple[Location, str]]:
    try:
        ProvisioningFile.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            yield detail["loc"], _reason(detail)


def _reason(detail: ErrorDetails) -> str:
    kind, location = detail["type"], detail["loc"]
    return f"unknown field{_hint(location)}" if kind == "extra_forbidden" else reason_of(detail)


def reason_of(detail: ErrorDetails) -> str:
    """Never pydantic's own text where that could quote the input."""
    kind = detail["type"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    text = detail["msg"]
    return _REASONS.get(kind, text[:1].lower() + text[1:])


def _hint(location: Location) -> str:
    entry = ENTRIES.get(tuple(part for part in location[:-1] if isinstance(part, str)))
    return did_you_mean(str(location[-1]), entry.model_fields if entry else ())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean base_url?)`, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _repeats(data: Mapping[str, object]) -> Iterable[tuple[Location, str]]:
    """Two entries for one thing: which of them should count?"""
    for section in ("stream_policies", "channels", "tenants"):
        yield from _twice((section,), data.get(section))
    yield from _routes_twice(data.get("model_routes"))
    for at, tenant in _entries(data.get("tenants")):
        yield from _twice(("tenants", at, "api_keys"), tenant.get("api_keys"))
    defaults = [at for at, entry in _entries(data.get("stream_policies")) if entry.get("is_default") is True]
    for at in defaults[1:]:
        yield ("stream_policies", at, "is_default"), f"stream_policies[{defaults[0]}] is the default already"


def _twice(location: Location, entries: object) -> Iterable[tuple[Location, str]]:
    seen: dict[str, int] = {}
    for at, entry in _entries(entries):
        name = entry.get("name")
        if isinstance(name, str) and (first := seen.setdefault(name, at)) != at:
            yield (*location, at, "name"), f"the same as {_path((*location, first))}"


def _routes_twice(entries: object) -> Iterable[tuple[Location, str]]:
    seen: dict[tuple[str, str], int] = {}
    for at, entry in _entries(entries):
        model, group = entry.get("model"), entry.get("group", "")
        if isinstance(model, str) and isinstance(group, str):
            first = seen.setdefault((model, group), at)
            if first != at:
                yield ("model_routes", at, "model"), f"the same as model_routes[{first}]"


def _entries(value: object) -> list[tuple[int, dict[str, object]]]:
    entries = value if isinstance(value, list) else []
    return [(at, entry) for at, entry in enumerate(entries) if isinstance(entry, dict)]


def _names(value: object) -> Iterable[str]:
    return (name for _, entry in _entries(value) if isinstance(name := entry.get("name"), str))


def _sound(
    data: Mapping[str, object], found: Iterable[Location]
) -> tuple[dict[str, object], dict[str, tuple[int, ...]]]:
    """Without the sections and entries that have a problem."""
    bad = {location[:2] for location in found}
    sound: dict[str, object] = {}
    positions: dict[str, tuple[int, ...]] = {}
    for section, value in data.items():
        if (section,) in bad or section not in ProvisioningFile.model_fields:
            continue
        if isinstance(value, list):
            kept = tuple(at for at in range(len(value)) if (section, at) not in bad)
            sound[section], positions[section] = [value[at] for at in kept], kept
        elif isinstance(value, dict):
            sound[section] = {name: part for name, part in value.items() if (section, name) not in bad}
    return sound, positions


def _path(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{str(part)[:60]}"
    return text.removeprefix(".")


def located(reading: Reading, section: str) -> Iterable[str]:
    """The path of each sound entry of a section, in their order."""
    return (f"{section}[{at}]" for at in reading.positions.get(section, ()))
