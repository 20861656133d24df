"""Careful reading of JSON that a client sent: wrong types become empty values, never exceptions.

Must not import: Django, aiohttp, anything of the gateway outside this package.
"""

from collections.abc import Iterator

JsonObject = dict[str, object]


def as_object(value: object) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """The value if it is a positive whole number; a numeric string counts too (form fields)."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def objects(value: object) -> Iterator[JsonObject]:
    """The objects of an array, others left out."""
    return (item for item in as_list(value) if isinstance(item, dict))


def content_text(content: object) -> str:
    """The text of a message: a string, or parts that carry a `text` (any of the dialects)."""
    if isinstance(content, str):
        return content
    return " ".join(text for part in objects(content) if (text := as_text(part.get("text"))))
