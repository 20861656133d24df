"""What a histogram says about percentiles.

Must not import: Django, a clock, models.
"""

import math
from collections.abc import Sequence


def percentile_bound(counts: Sequence[int], bounds: Sequence[float], share: float) -> float | None:
    """The upper bound of the bucket that holds the value below which `share` of all lie.

    counts: one a bound, and one more for what is beyond the last. None: nothing was counted. Infinity: beyond
    the last bound. share: above 0, at most 1.
    """
    total = sum(counts)
    if total <= 0:
        return None
    needed, seen = math.ceil(total * share), 0
    for bound, count in zip(bounds, counts, strict=False):
        seen += count
        if seen >= needed:
            return bound
    return math.inf
