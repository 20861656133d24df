"""The breaker alone: no store, no clock."""

import pytest

from billing.admission.redis.breaker import FAILURES_TO_OPEN, PROBE_INTERVAL_S, Breaker


def opened(at: float = 100.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed(at)
    return breaker


def test_two_failures_are_no_outage():
    breaker = Breaker()
    for _ in range(2):
        breaker.failed(100.0)
    assert breaker.allows(100.0)
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(100.0)
    assert not breaker.is_open
    assert breaker.wait_s(100.0) == 0


def test_three_in_a_row_are():
    breaker = opened()
    assert breaker.is_open
    assert not breaker.allows(100.0)
    assert breaker.wait_s(100.4) == pytest.approx(PROBE_INTERVAL_S - 0.4)


def test_one_probe_a_second():
    breaker = opened()
    allowed = [moment / 10 for moment in range(1000, 1040) if breaker.allows(moment / 10)]
    assert allowed == [101.0, 102.0, 103.0]


def test_a_probe_that_fails_keeps_it_open():
    breaker = opened()
    assert breaker.allows(101.0)
    breaker.failed(101.2)
    assert not breaker.allows(102.0)
    assert breaker.allows(102.2)


def test_a_probe_that_works_closes_it():
    breaker = opened()
    assert breaker.allows(101.0)
    breaker.succeeded()
    assert breaker.allows(101.0)
    assert breaker.wait_s(101.0) == 0
