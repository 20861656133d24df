"""Counts of tokens as upstreams report them, whatever a dialect calls them.

What is no count counts as not reported, and is told as `USAGE_ABSURD`. Must not import a dialect.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from relay.core.dialects.loose import whole_number
from relay.core.usage import MAX_COUNT, TokenUsage

USAGE_ABSURD = "usage_absurd"
"""The soft error of a usage in which something is no whole number from 0 to `MAX_COUNT`."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


class Reported(NamedTuple):
    """What a whole answer's usage says. soft_errors: classes."""

    tokens: TokenUsage | None = None
    soft_errors: tuple[str, ...] = ()


def loose_counts(
    value: Mapping[str, object], names: Sequence[str], unusable: list[str]
) -> dict[str, int | None]:
    """The counts among `names`; the names of what is there and is none go into `unusable`."""
    counts: dict[str, int | None] = dict.fromkeys(names)
    for name in names:
        number = whole_number(value.get(name))
        if number is not None and 0 <= number <= MAX_COUNT:
            counts[name] = number
        elif value.get(name) is not None:
            unusable.append(name)
    return counts
