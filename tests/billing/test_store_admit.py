"""Admission: all of it or nothing, once. On both stores."""

import asyncio

import pytest

from billing.admission import OpenState
from billing.admission.open_record import AccountUnknown, Admitted, RefusedBalance, RefusedLimit
from tests.billing.asks import EPOCH, account, ask, checkpoint, settled


@pytest.fixture(autouse=True)
async def alive(lane):
    await lane.port.beat(EPOCH)


async def test_of_fifty_at_once_on_a_balance_for_three_exactly_three_get_in(lane):
    await lane.port.accounts_put([account(7, 35)])
    answers = await asyncio.gather(
        *(lane.port.admit(EPOCH, ask(f"r{number}", account=7, hold=10)) for number in range(50))
    )
    taken = [answer for answer in answers if isinstance(answer, Admitted)]
    assert sorted(answer.available_nano for answer in taken) == [5, 15, 25]
    assert {answer for answer in answers if answer not in taken} == {RefusedBalance(10, 5)}
    assert lane.records.open_amounts() == {7: 30}
    assert lane.records.counts().running == 3


async def test_asked_again_it_is_taken_once(lane):
    await lane.port.accounts_put([account(7, 100)])
    one = ask(
        account=7,
        hold=60,
        leases=[("tenant:7", 1)],
        rates=[("rpm", 1, 1)],
        candidates=[[("c", 0)], [("d", 1)]],
    )
    first = await lane.port.admit(EPOCH, one)
    assert first == Admitted(1, 40)
    assert await lane.port.admit(EPOCH, one) == first
    assert lane.records.open_amounts() == {7: 60}
    assert lane.records.holders("tenant:7") == ["r"]
    assert lane.records.counts().running == 1


async def test_asked_again_once_it_is_settled_it_stays_settled(lane):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.settle([settled("r", 7, 30)])
    assert await lane.port.admit(EPOCH, ask(account=7, hold=60)) == Admitted(-1, 70)
    assert (await lane.port.state("r")).state is OpenState.SETTLED
    assert lane.records.open_amounts() == {7: 30}


async def test_a_hold_of_the_whole_balance_fits_and_one_more_does_not(lane):
    await lane.port.accounts_put([account(7, 100)])
    assert await lane.port.admit(EPOCH, ask("more", account=7, hold=101)) == RefusedBalance(101, 100)
    assert await lane.port.admit(EPOCH, ask("all", account=7, hold=100)) == Admitted(-1, 0)


async def test_what_costs_nothing_needs_no_balance(lane):
    await lane.port.accounts_put([account(7, -5)])
    assert await lane.port.admit(EPOCH, ask("free", account=7)) == Admitted(-1, -5)
    assert await lane.port.admit(EPOCH, ask("dear", account=7, hold=1)) == RefusedBalance(1, -5)


async def test_who_does_not_pay_needs_no_account(lane):
    assert await lane.port.admit(EPOCH, ask(account=0, hold=5)) == Admitted(-1, 0)
    assert lane.records.open_amounts() == {}
    assert lane.records.recompute() == {}


async def test_an_unknown_account_is_told_before_anything_else(lane):
    full = ask(account=7, hold=5, leases=[("full", 0)])
    assert await lane.port.admit(EPOCH, full) == AccountUnknown()
    assert await lane.port.state("r") is None


@pytest.mark.parametrize(
    ("refused", "answer"),
    [
        ({"leases": [("a", 1), ("full", 1), ("full too", 1)]}, RefusedLimit("full", 1, 1)),
        ({"rates": [("rpm", 9, 1), ("tpm", 100, 101)]}, RefusedLimit("tpm", 100, 60)),
        ({"hold": 200}, RefusedBalance(200, 100)),
        ({"candidates": [[("a", 1), ("full", 1)], [("full too", 1)]]}, RefusedLimit("", 0, 1)),
    ],
    ids=["lease", "rate", "balance", "candidates"],
)
async def test_a_refusal_names_its_reason_and_takes_nothing(lane, refused, answer):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask("other", leases=[("full", 1), ("full too", 1)]))
    wanted = {
        "account": 7,
        "hold": 50,
        "leases": [("b", 1)],
        "rates": [("rpm", 9, 9)],
        "candidates": [[("c", 1)]],
    }
    assert await lane.port.admit(EPOCH, ask("r", **(wanted | refused))) == answer
    assert await lane.port.state("r") is None
    assert lane.records.open_amounts() == {}
    assert lane.records.counts().running == 1
    assert await lane.port.admit(EPOCH, ask("r", **wanted)) == Admitted(0, 50)


async def test_reasons_are_tested_in_one_order(lane):
    await lane.port.accounts_put([account(7, 10)])
    await lane.port.admit(EPOCH, ask("other", leases=[("full", 1)]))
    wrong = {
        "leases": [("full", 1)],
        "rates": [("rpm", 1, 2)],
        "hold": 11,
        "candidates": [[("full", 1)]],
    }
    expected = [
        RefusedLimit("full", 1, 1),
        RefusedLimit("rpm", 1, 60),
        RefusedBalance(11, 10),
        RefusedLimit("", 0, 1),
    ]
    for answer in expected:
        assert await lane.port.admit(EPOCH, ask(account=7, **wrong)) == answer
        del wrong[next(iter(wrong))]


async def test_a_withdrawn_request_leaves_nothing(lane):
    await lane.port.accounts_put([account(7, 100)])
    one = ask(account=7, hold=60, leases=[("tenant:7", 1)], candidates=[[("c", 1)]])
    await lane.port.admit(EPOCH, one)
    lane.port.withdraw("r")
    lane.port.withdraw("r")
    lane.port.withdraw("never")
    assert await lane.port.state("r") is None
    assert lane.records.open_amounts() == {}
    assert lane.records.holders("tenant:7") == []
    assert lane.records.counts().running == 0
    assert await lane.port.admit(EPOCH, one) == Admitted(0, 40)


async def test_what_is_settled_cannot_be_withdrawn(lane):
    await lane.port.settle([settled("r", 7, 30)])
    lane.port.withdraw("r")
    assert (await lane.port.state("r")).state is OpenState.SETTLED
    assert lane.records.open_amounts() == {7: 30}


async def test_a_checkpoint_replaces_hold_and_record(lane):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask(account=7, hold=10))
    for hold in (100, 20, 20):
        assert await lane.port.checkpoint(EPOCH, [checkpoint("r", 7, hold, b"%d" % hold)]) == frozenset()
        assert lane.records.open_amounts() == {7: hold}
    assert (await lane.port.state("r")).payload == b"20"


async def test_a_raise_that_the_balance_does_not_cover_is_refused_alone(lane):
    await lane.port.accounts_put([account(7, 100), account(8, 100)])
    for name, payer in (("a", 7), ("b", 7), ("c", 8)):
        await lane.port.admit(EPOCH, ask(name, account=payer, hold=40))
    raised = [checkpoint("a", 7, 60, b"a2"), checkpoint("b", 7, 41, b"b2"), checkpoint("c", 8, 101, b"c2")]
    assert await lane.port.checkpoint(EPOCH, raised) == {"b", "c"}
    assert lane.records.open_amounts() == {7: 100, 8: 40}
    assert (await lane.port.state("b")).payload == b"b2"
    assert (
        await lane.port.checkpoint(EPOCH, [checkpoint("a", 7, 0, b"a3"), checkpoint("b", 7, 80, b"b3")])
        == set()
    )
    assert lane.records.open_amounts() == {7: 80, 8: 40}


async def test_a_checkpoint_of_what_is_gone_or_settled_changes_nothing(lane):
    await lane.port.settle([settled("done", 7, 30, b"outcome")])
    late = [checkpoint("done", 7, 99, b"late"), checkpoint("gone", 7, 99, b"late")]
    assert await lane.port.checkpoint(EPOCH, late) == frozenset()
    assert await lane.port.checkpoint(EPOCH, []) == frozenset()
    assert await lane.port.state("gone") is None
    assert (await lane.port.state("done")).payload == b"outcome"
    assert lane.records.open_amounts() == {7: 30}


async def test_state_of_a_running_request(lane):
    await lane.port.admit(EPOCH, ask(record=b"\x00\xff"))
    for state in (await lane.port.state("r"), lane.records.state("r")):
        assert (state.state, state.payload, state.epoch) == (OpenState.RUNNING, b"\x00\xff", EPOCH)
    assert lane.records.state("never") is None


async def test_amounts_and_balances_are_exact_to_the_nano_dollar(lane):
    balance = 2**62 + 1
    await lane.port.accounts_put([account(7, balance)])
    hold = 2**53 - 1
    assert await lane.port.admit(EPOCH, ask(account=7, hold=hold)) == Admitted(-1, balance - hold)
    await lane.port.settle([settled("s", 7, 1)])
    assert lane.records.open_amounts() == {7: 2**53}
    assert await lane.port.admit(EPOCH, ask("z", account=7)) == Admitted(-1, balance - 2**53)
