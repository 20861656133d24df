"""Whether an incoming request draws, for the ceiling on image requests that run at once.

Decided by what the client sent alone: not by a model mapping, nor by a tool that a channel's overrides add.
Must not know ceilings or flags.
"""

from collections.abc import Mapping, Sequence

import msgspec

from relay.core.dialects.members import is_set, items, members, text
from relay.core.path_families import PathFamily, classify
from relay.core.selection import matches

_DRAWS = frozenset({"generations", "edits", "variations"})
_TOOL = "image_generation"


def is_image_request(
    method: str, path: str, *, model: str, fields: Mapping[str, msgspec.Raw], model_patterns: Sequence[str]
) -> bool:
    """True for the endpoints that draw, and for a response by a model or with a tool that draws.

    path: normalised, without query. fields: top-level members of the body. model_patterns: names or
    patterns with `*` of models that draw; they count for responses only. Malformed members count as absent.
    """
    if method != "POST":
        return False
    segments = path.lower().strip("/").split("/")
    family = classify(path)
    if family is PathFamily.IMAGES:
        return segments[-1] in _DRAWS and segments[-2] == "images"
    if family is not PathFamily.RESPONSES or segments[-1] != "responses":
        return False
    return (
        any(matches(pattern, model) for pattern in model_patterns)
        or _has_tool(fields.get("tools"))
        or _chooses_tool(fields.get("tool_choice"))
    )


def _has_tool(raw: msgspec.Raw | None) -> bool:
    return any(text(members(tool).get("type")) == _TOOL for tool in items(raw) or ())


def _chooses_tool(raw: msgspec.Raw | None) -> bool:
    """By its name or type, or among the tools that a choice allows."""
    if raw is None or not is_set(raw):
        return False
    choice = members(raw)
    return _TOOL in (text(raw), text(choice.get("type")), text(choice.get("name"))) or _has_tool(
        choice.get("tools")
    )
