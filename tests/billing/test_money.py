from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.core.money import nano_from_usd, usd_from_nano, usd_text


@pytest.mark.parametrize(
    ("usd", "nano"),
    [
        ("0", 0),
        ("1", 1_000_000_000),
        ("0.000000001", 1),
        ("0.0000000005", 1),
        ("0.00000000049", 0),
        ("-0.0000000005", -1),
        ("12.3456789012", 12_345_678_901),
        ("9000000000", 9_000_000_000_000_000_000),
    ],
)
def test_nano_from_usd_rounds_half_up_once(usd, nano):
    assert nano_from_usd(Decimal(usd)) == nano


@pytest.mark.parametrize("usd", ["NaN", "Infinity", "-Infinity"])
def test_no_amount_is_infinite(usd):
    with pytest.raises(ValueError):
        nano_from_usd(Decimal(usd))


@given(st.integers(-(2**63), 2**63 - 1))
def test_there_and_back_is_exact(nano):
    assert nano_from_usd(usd_from_nano(nano)) == nano
    assert nano_from_usd(Decimal(usd_text(nano))) == nano


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0.00"),
        (1_500_000_000, "1.50"),
        (1, "0.000000001"),
        (-2_000_000_000, "-2.00"),
        (-5, "-0.000000005"),
    ],
)
def test_usd_text(nano, text):
    assert usd_text(nano) == text
