"""The little markdown that the pages need: a page, a table, values as a reader writes them. Pure."""

from collections.abc import Iterable, Sequence

NOTE = "<!-- Made by `manage.py reference --write` from the tables in code. Edit those, not this page. -->"
_KIB, _MIB = 1024, 1024 * 1024


def page(title: str, *blocks: str) -> str:
    """Blocks are separated by a blank line; the text ends with a newline."""
    return "\n\n".join((f"# {title}", NOTE, *blocks)) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells may hold markdown, but no line breaks."""
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def code(value: object) -> str:
    return f"`{value}`"


def number(value: float) -> str:
    """`14400.0` → `14,400`, `0.25` → `0.25`."""
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def seconds(value: float) -> str:
    return f"{number(value)} s"


def size(value: int) -> str:
    """Bytes, in the largest unit that divides them."""
    if value % _MIB == 0:
        return f"{number(value // _MIB)} MiB"
    return f"{number(value // _KIB)} KiB" if value % _KIB == 0 else f"{number(value)} bytes"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
