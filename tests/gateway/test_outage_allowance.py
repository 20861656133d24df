"""What a tenant may spend in one process while the store is away."""

from gateway.admission.outage import OutageAllowance


def test_off_by_default_nothing_runs_without_the_store():
    allowance = OutageAllowance(0)
    allowance.saw(1, 10**12)
    assert not allowance.take(1, 0)


def test_the_smaller_of_cap_and_what_was_left_is_the_limit():
    allowance = OutageAllowance(100)
    allowance.saw(1, 1_000)
    allowance.saw(2, 30)
    assert [allowance.take(1, 60), allowance.take(1, 60), allowance.take(1, 40)] == [True, False, True]
    assert [allowance.take(2, 20), allowance.take(2, 20)] == [True, False]


def test_a_tenant_that_was_never_seen_has_nothing():
    assert not OutageAllowance(100).take(7, 1)


def test_the_store_s_word_starts_it_afresh():
    allowance = OutageAllowance(100)
    allowance.saw(1, 100)
    assert allowance.take(1, 100)
    assert not allowance.take(1, 1)
    allowance.saw(1, 50)
    assert allowance.take(1, 50)
    assert not allowance.take(1, 1)
