"""Money as whole nano-dollars: 1 USD = 10^9. Never a float.

Must not import: Django, a clock, anything of billing outside `billing.core`.
"""

from decimal import ROUND_HALF_UP, Decimal

NANO_PER_USD = 1_000_000_000
STORED_NANO_MAX = 2**53
"""The largest amount of one request that an admission store keeps exactly: 9 million USD."""


def nano_from_usd(usd: Decimal) -> int:
    """USD → nano-dollars, rounded half-up (away from zero) once.

    Errors: ValueError for infinities and NaN.
    """
    if not usd.is_finite():
        raise ValueError("an amount must be finite")
    return int((usd * NANO_PER_USD).to_integral_value(rounding=ROUND_HALF_UP))


def usd_from_nano(nano: int) -> Decimal:
    """Nano-dollars → USD, exact."""
    return Decimal(nano).scaleb(-9)


def usd_text(nano: int) -> str:
    """For people: at least two decimals, no trailing zeros beyond them. 1_500_000_000 → `1.50`."""
    whole, _, fraction = f"{usd_from_nano(nano):.9f}".partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"
