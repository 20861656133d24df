"""An account's entries as a chain: numbered without gap, each balance the one before plus the amount.

Must not import: Django, a clock, anything of billing outside `billing.core`.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """One entry. balance_nano: after it."""

    seq: int
    amount_nano: int
    balance_nano: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at an entry. expected, found: `entry 4` or `balance 12`."""

    seq: int
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """verified_seq: the chain holds up to there. fault: the first thing wrong behind it."""

    verified_seq: int
    fault: Fault | None = None


def chain_verify(anchor_seq: int, links: Iterable[Link]) -> Verdict:
    """links: from the entry `anchor_seq` on, which was verified before, in order; all of them for 0."""
    seq, balance = anchor_seq, 0
    is_anchored = anchor_seq == 0
    for link in links:
        if not is_anchored:
            if link.seq != anchor_seq:
                break
            balance, is_anchored = link.balance_nano, True
            continue
        if link.seq != seq + 1:
            return Verdict(seq, Fault(seq + 1, f"entry {seq + 1}", f"entry {link.seq}"))
        if link.balance_nano != balance + link.amount_nano:
            fault = Fault(link.seq, f"balance {balance + link.amount_nano}", f"balance {link.balance_nano}")
            return Verdict(seq, fault)
        seq, balance = link.seq, link.balance_nano
    if not is_anchored:
        return Verdict(anchor_seq, Fault(anchor_seq, f"entry {anchor_seq}", "nothing"))
    return Verdict(seq)
