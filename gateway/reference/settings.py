"""docs/settings.md: every environment setting and every runtime flag, from their two tables."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from pydantic import TypeAdapter

from channels_admin.flags import FLAGS, Flag
from gateway.reference.markdown import code, number, page, size, table
from gateway.settings.environment import BASE_DIR, Environment

# Schemas as pydantic makes them; their values are any JSON.
Schema = Mapping[str, object]

FLAGS_WITHOUT_EFFECT: frozenset[str] = frozenset()
"""Can be set, are obeyed by nothing yet. A test demands that whoever obeys one takes it out here."""

ENVIRONMENT_WITHOUT_EFFECT: frozenset[str] = frozenset()

_INTRO = """\
Two kinds of settings, in two tables of the code:

- **Environment settings** are read once, when a process starts. Every process of a deployment needs the
  same ones. A value that cannot be read stops the process at once.
- **Runtime flags** can be changed while the gateway runs, in the console or by `manage.py apply`; every
  process obeys within a second."""

_MARKED = "Names marked † can be set but have no effect in this version."

_FLAGS_INTRO = """\
A flag's value is what the console (or `manage.py apply`) has saved, else what the environment variable of
the same name says, else the default. A flag named in `PINNED_FLAGS` is fixed by the environment and cannot
be changed in the console. Switches read `true`, `false`, `1`, `0`, `yes`, `no`, `on`, `off`; lists are
separated by commas."""

_WORDS = {
    "boolean": "switch",
    "integer": "whole number",
    "number": "number",
    "array": "list",
    "string": "text",
}


def settings_page() -> str:
    head = ["Name", "Type", "Default", "Meaning"]
    return page(
        "Settings",
        _INTRO,
        *([_MARKED] if FLAGS_WITHOUT_EFFECT or ENVIRONMENT_WITHOUT_EFFECT else []),
        "## Environment settings",
        table(head, _environment_rows()),
        "## Runtime flags",
        _FLAGS_INTRO,
        *_flag_groups(head),
    )


def _environment_rows() -> Iterator[list[str]]:
    properties: Mapping[str, Schema] = Environment.model_json_schema()["properties"]
    for name, field in Environment.model_fields.items():
        mark = " †" if name in ENVIRONMENT_WITHOUT_EFFECT else ""
        default = _default(name, field.default)
        yield [code(name) + mark, _type_words(properties[name]), default, field.description or ""]


def _flag_groups(head: list[str]) -> Iterator[str]:
    for group, flags in groupby(FLAGS.values(), key=lambda flag: flag.group):
        yield f"### {group.value.capitalize()}"
        yield table(head, map(_flag_row, flags))


def _flag_row(flag: Flag) -> list[str]:
    mark = " †" if flag.name in FLAGS_WITHOUT_EFFECT else ""
    schema = TypeAdapter[object](flag.type).json_schema()
    return [code(flag.name) + mark, _type_words(schema), _default(flag.name, flag.default), flag.meaning]


def _type_words(schema: Schema) -> str:
    """`whole number, 0 to 1,000,000`."""
    if options := schema.get("anyOf"):  # a value or none
        assert isinstance(options, list)  # noqa: S101  so JSON schema has it
        return _type_words(options[0])
    if choices := schema.get("enum"):
        assert isinstance(choices, list)  # noqa: S101  likewise
        return " or ".join(map(code, choices))
    if schema.get("format") == "path":
        return "path"
    words = _WORDS[str(schema["type"])]
    if "network" in str(schema.get("items")):
        return f"{words} of networks"
    return words + _range_words(schema)


def _range_words(schema: Schema) -> str:
    # Behind a validator of its own, pydantic leaves its own names of the bounds.
    least, most = schema.get("minimum", schema.get("ge")), schema.get("maximum", schema.get("le"))
    if not isinstance(least, int | float):
        return ""
    if not isinstance(most, int | float):
        return f", at least {number(least)}"
    return f", {number(least)} to {number(most)}"


def _default(name: str, value: object) -> str:
    match value:
        case None | "" | ():
            return "–"
        case int() if name.endswith("_BYTES"):
            return f"{number(value)} ({size(value)})"
        case int() | float() if not isinstance(value, bool):
            return number(value)
        case tuple():
            return code(",".join(map(str, value)))
        case bool():
            return code(str(value).lower())
        case _:
            return code(value.relative_to(BASE_DIR) if isinstance(value, Path) else value)
