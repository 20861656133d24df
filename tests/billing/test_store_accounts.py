"""Settling, balances and sums. On both stores."""

from billing.admission import OpenState
from billing.admission.open_record import AccountUnknown, Admitted
from tests.billing.asks import EPOCH, account, ask, settled


async def available(lane, number=7):
    """What an admission that costs nothing sees."""
    answer = await lane.port.admit(EPOCH, ask("probe", account=number))
    lane.port.withdraw("probe")
    return answer.available_nano if isinstance(answer, Admitted) else answer


async def test_settling_replaces_the_hold_and_drops_the_leases(lane):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask(account=7, hold=60, leases=[("a", 1)], candidates=[[("c", 1)]]))
    await lane.port.settle([settled("r", 7, 25, b"outcome")])
    state = await lane.port.state("r")
    assert (state.state, state.payload, state.epoch) == (OpenState.SETTLED, b"outcome", "")
    assert lane.records.open_amounts() == {7: 25}
    assert lane.records.holders("a") == lane.records.holders("c") == []
    assert (lane.records.counts().running, lane.records.counts().waiting) == (0, 1)
    assert lane.records.claim(1) == [settled("r", 7, 25, b"outcome")]


async def test_settling_twice_counts_the_last_amount_once(lane):
    await lane.port.settle([settled("r", 7, 25)])
    await lane.port.settle([settled("r", 7, 40), settled("r", 7, 30)])
    assert lane.records.open_amounts() == {7: 30}


async def test_an_amount_moves_with_its_account(lane):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask(account=7, hold=60))
    await lane.port.settle([settled("r", 8, 25)])
    assert lane.records.open_amounts() == {8: 25}
    await lane.port.settle([settled("r", 0, 25)])
    assert lane.records.open_amounts() == {}
    assert lane.records.claim(1) == [settled("r", 0, 25)]


async def test_acknowledging_turns_an_open_amount_into_a_lower_balance(lane):
    await lane.port.accounts_put([account(7, 100, 1)])
    await lane.port.settle([settled("r", 7, 25), settled("s", 7, 5)])
    assert await available(lane) == 70
    lane.records.acknowledge(["r"], [account(7, 75, 2)])
    assert await available(lane) == 70
    assert lane.records.open_amounts() == {7: 5}


async def test_newer_balances_win_whatever_the_order(lane):
    await lane.port.accounts_put([account(7, 100, 5)])
    lane.records.accounts_put([account(7, 1, 4), account(7, 2, 5)])
    assert await available(lane) == 100
    await lane.port.settle([settled("r", 7, 25)])
    lane.records.acknowledge(["r"], [account(7, 3, 3)])
    assert await available(lane) == 100
    lane.records.acknowledge([], [account(7, 60, 10), account(8, 9, 1)])
    assert await available(lane) == 60
    assert await available(lane, 8) == 9


async def test_seqs_are_compared_as_numbers(lane):
    await lane.port.accounts_put([account(7, 1, 9)])
    await lane.port.accounts_put([account(7, 2, 10)])
    assert await available(lane) == 2


async def test_amounts_open_before_the_account_is_known_count_once_it_is(lane):
    await lane.port.settle([settled("r", 7, 25)])
    assert await lane.port.admit(EPOCH, ask("probe", account=7)) == AccountUnknown()
    await lane.port.accounts_put([account(7, 100)])
    assert await available(lane) == 75


async def test_a_running_record_is_not_acknowledged(lane):
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask(account=7, hold=10))
    lane.records.acknowledge(["r"])
    assert (await lane.port.state("r")).state is OpenState.RUNNING


async def test_recomputed_sums_are_the_cached_ones(lane):
    await lane.port.accounts_put([account(7, 100), account(8, 100)])
    await lane.port.admit(EPOCH, ask("a", account=7, hold=10))
    await lane.port.admit(EPOCH, ask("b", account=8, hold=20))
    await lane.port.settle([settled("c", 7, 3), settled("d", 9, 4), settled("b", 8, 0)])
    assert lane.records.recompute() == {}
    assert lane.records.open_amounts() == {7: 13, 9: 4}


async def test_recomputing_mends_a_wrong_sum(redis_lane):
    lane = redis_lane
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask("a", account=7, hold=10))
    lane.client.hset(f"{lane.prefix}open", "7", 9999)
    lane.client.hset(f"{lane.prefix}open", "8", 5)
    assert lane.records.recompute() == {7: 10 - 9999, 8: -5}
    assert lane.records.open_amounts() == {7: 10}
    assert await available(lane) == 90


async def test_settled_ids_oldest_first(lane):
    for name in ("c", "a", "b"):
        await lane.port.settle([settled(name)])
        lane.later(1)
    await lane.port.admit(EPOCH, ask("running"))
    assert lane.records.settled_ids(2) == ["c", "a"]
    assert lane.records.settled_ids(0) == []
    lane.records.claim(1)
    assert lane.records.settled_ids(9) == ["a", "b", "c"]


async def test_nothing_is_left_of_what_was_acknowledged(redis_lane):
    lane = redis_lane
    await lane.port.beat(EPOCH)
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask("r", account=7, hold=10, leases=[("a", 1)], candidates=[[("c", 1)]]))
    await lane.port.settle([settled("r", 7, 25)])
    lane.records.claim(1)
    lane.records.acknowledge(["r"], [account(7, 75, 2)])
    await lane.port.leave(EPOCH)
    assert lane.left() == {"open"}
    assert lane.records.open_amounts() == {}
