"""docs/prices.md says what the code does."""

import re
from pathlib import Path

from billing.core.billable import billable_tokens
from billing.core.prices import FALLBACKS, PART_NAMES
from relay.core.usage import TokenUsage

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "prices.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", TEXT, re.MULTILINE)


def test_the_table_of_fallbacks():
    told = {part: tuple(re.findall(r"`(\w+)`", others)) for part, others in ROWS}
    assert told == dict(FALLBACKS)
    assert {part for part, others in ROWS if others == "nothing"} == {"input", "output"}


def test_the_docstring_of_pricing_says_the_same():
    import billing.core.pricing  # noqa: PLC0415

    told = {}
    for line in billing.core.pricing.__doc__.splitlines():
        words = line.replace(",", "").split()
        halves = [line[4:46], line[46:]] if words and words[0] in FALLBACKS else []
        for half in filter(str.strip, halves):
            part, *others = half.replace(",", " ").split()
            told[part] = tuple(word for word in others if word != "–")
    assert told == dict(FALLBACKS)


def test_a_token_that_two_parts_claim_counts_for_the_first_row():
    order = [part for part, _ in ROWS]
    sides = (order[: order.index("input")], order[order.index("input") + 1 : order.index("output")])
    for whole, parts in zip(("input", "output"), sides, strict=True):
        for at, part in enumerate(parts[:-1]):
            usage = TokenUsage(**{whole: 1, **dict.fromkeys(parts[at:], 1)})
            assert billable_tokens(usage) == {part: 1}


def test_every_part_is_told():
    assert all(f"`{part}`" in TEXT for part in (*PART_NAMES, "tiers", "image_rates"))
