"""Who is alive, and what becomes of the records of the dead. On both stores."""

import pytest

from billing.admission import OpenState
from billing.admission.open_record import Admitted, RefusedLimit
from billing.admission.store import CLAIM_SECONDS, EPOCH_EXPIRES_S, GRACE_S, SILENCE_S
from tests.billing.asks import EPOCH, account, ask, checkpoint, lease_asks, restore, settled


async def live(lane, seconds: float) -> None:
    """Time goes on while another process beats, so that nobody takes the store for unreachable."""
    while seconds > 0:
        lane.later(min(5, seconds))
        seconds -= 5
        lane.records.beat()


@pytest.fixture
async def dead(lane):
    """A store past its grace time, with one request whose process has died."""
    lane.records.beat()
    await live(lane, GRACE_S)
    await lane.port.beat(EPOCH)
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask("r", account=7, hold=40, leases=[("t", 1)], record=b"last"))
    await live(lane, EPOCH_EXPIRES_S + 1)
    return lane


async def test_a_heartbeat_tells_whether_the_epoch_was_lost(lane):
    assert (await lane.port.beat(EPOCH)).was_lost
    await live(lane, EPOCH_EXPIRES_S - 5)
    assert not (await lane.port.beat(EPOCH)).was_lost
    await live(lane, EPOCH_EXPIRES_S + 1)
    assert (await lane.port.beat(EPOCH)).was_lost
    assert not (await lane.port.beat(EPOCH)).was_lost


async def test_the_boot_id_stays(lane):
    first = await lane.port.beat(EPOCH)
    assert first.boot_id
    assert (await lane.port.beat("another")).boot_id == first.boot_id


async def test_records_of_a_dead_process_are_claimed_and_hidden(dead):
    assert dead.records.claim_abandoned(10) == [("r", b"last")]
    assert dead.records.claim_abandoned(10) == []
    await live(dead, CLAIM_SECONDS + 1)
    assert dead.records.claim_abandoned(10) == [("r", b"last")]
    dead.records.release(["r"])
    assert dead.records.claim_abandoned(0) == []
    assert dead.records.claim_abandoned(10) == [("r", b"last")]


async def test_booked_as_abandoned_they_leave_nothing(dead):
    dead.records.claim_abandoned(10)
    dead.records.acknowledge_abandoned(["r", "never"], [account(7, 90, 2)])
    dead.records.acknowledge_abandoned(["r"], [])
    assert await dead.port.state("r") is None
    assert dead.records.open_amounts() == {}
    assert dead.records.holders("t") == []
    assert dead.records.counts().running == 0
    await live(dead, CLAIM_SECONDS + 1)
    assert dead.records.claim_abandoned(10) == []
    assert await dead.port.admit("e2", ask("s", account=7, hold=90)) == Admitted(-1, 0)


async def test_living_records_are_not_abandoned(dead):
    await dead.port.beat("e2")
    await dead.port.admit("e2", ask("living"))
    assert dead.records.claim_abandoned(10) == [("r", b"last")]
    assert dead.records.counts().running == 2
    dead.records.acknowledge_abandoned(["living"], [])
    assert (await dead.port.state("living")).state is OpenState.RUNNING


async def test_what_was_settled_meanwhile_stays(dead):
    dead.records.claim_abandoned(10)
    await dead.port.settle([settled("r", 7, 15, b"outcome")])
    dead.records.acknowledge_abandoned(["r"], [])
    assert dead.records.open_amounts() == {7: 15}
    assert dead.records.claim(10) == [settled("r", 7, 15, b"outcome")]
    await live(dead, CLAIM_SECONDS + 1)
    assert dead.records.claim_abandoned(10) == []


async def test_an_outcome_after_the_abandonment_is_settled_all_the_same(dead):
    dead.records.claim_abandoned(10)
    dead.records.acknowledge_abandoned(["r"], [account(7, 90, 2)])
    await dead.port.settle([settled("r", 7, 15)])
    assert dead.records.claim(10) == [settled("r", 7, 15)]


async def test_the_leases_of_a_dead_process_block_nobody(dead):
    assert await dead.port.admit("e2", ask("s", leases=[("t", 1)])) == Admitted()
    assert dead.records.holders("t") == ["s"]
    assert dead.records.open_amounts() == {7: 40}
    assert dead.records.claim_abandoned(10) == [("r", b"last")]


async def test_nor_at_a_further_attempt(dead):
    await dead.port.beat("e2")
    await dead.port.admit("e2", ask("s"))
    assert await dead.port.lease("s", "2", lease_asks([("t", 1)])) == 0


async def test_the_leases_of_a_living_process_do(lane):
    await lane.port.beat(EPOCH)
    await lane.port.admit(EPOCH, ask("r", leases=[("t", 1)]))
    await live(lane, EPOCH_EXPIRES_S - 1)
    assert await lane.port.admit("e2", ask("s", leases=[("t", 1)])) == RefusedLimit("t", 1, 1)


async def test_nothing_is_abandoned_in_the_grace_time_after_a_silence(dead):
    dead.later(SILENCE_S + 1)
    assert dead.records.claim_abandoned(10) == []
    dead.records.beat()
    await live(dead, GRACE_S - 1)
    assert dead.records.claim_abandoned(10) == []
    await live(dead, 1.1)
    assert dead.records.claim_abandoned(10) == [("r", b"last")]


async def test_nor_in_a_store_that_just_started(lane):
    await lane.port.admit(EPOCH, ask("r"))
    lane.later(EPOCH_EXPIRES_S + 1)
    assert lane.records.claim_abandoned(10) == []
    lane.records.beat()
    assert lane.records.claim_abandoned(10) == []
    await live(lane, GRACE_S + 1)
    assert [name for name, _ in lane.records.claim_abandoned(10)] == ["r"]


async def test_beats_in_time_begin_no_grace(dead):
    await live(dead, 3 * SILENCE_S)
    assert dead.records.claim_abandoned(10) == [("r", b"last")]


async def test_a_process_that_lost_its_epoch_writes_its_records_again(dead):
    dead.records.claim_abandoned(10)
    assert (await dead.port.beat(EPOCH)).was_lost
    await dead.port.beat("e2")
    await dead.port.restore("e2", [restore("r", 7, 50, b"again", leases=["t"], attempts=[("2", "c")])])
    state = await dead.port.state("r")
    assert (state.state, state.payload, state.epoch) == (OpenState.RUNNING, b"again", "e2")
    assert dead.records.open_amounts() == {7: 50}
    assert dead.records.holders("t") == dead.records.holders("c") == ["r"]
    dead.records.acknowledge_abandoned(["r"], [])
    assert (await dead.port.state("r")).state is OpenState.RUNNING
    await live(dead, CLAIM_SECONDS + 1)
    dead.port.release_leases("r", "2")
    await dead.port.state("r")
    assert dead.records.holders("c") == []


async def test_restoring_takes_holds_and_leases_whatever_the_limits_say(lane):
    await lane.port.beat(EPOCH)
    await lane.port.accounts_put([account(7, 10)])
    records = [restore(f"r{number}", 7, 8, leases=["t"]) for number in range(3)]
    await lane.port.restore(EPOCH, records)
    await lane.port.restore(EPOCH, records)
    await lane.port.restore(EPOCH, [])
    assert lane.records.open_amounts() == {7: 24}
    assert lane.records.holders("t") == ["r0", "r1", "r2"]
    assert lane.records.counts().running == 3


async def test_restoring_does_not_undo_a_settlement(lane):
    await lane.port.settle([settled("r", 7, 15, b"outcome")])
    await lane.port.restore(EPOCH, [restore("r", 7, 50, leases=["t"])])
    assert (await lane.port.state("r")).payload == b"outcome"
    assert lane.records.open_amounts() == {7: 15}
    assert lane.records.holders("t") == []


async def test_a_checkpoint_takes_a_record_along_into_the_new_epoch(dead):
    dead.records.claim_abandoned(10)
    await dead.port.beat("e2")
    await dead.port.checkpoint("e2", [checkpoint("r", 7, 40)])
    assert (await dead.port.state("r")).epoch == "e2"
    await live(dead, CLAIM_SECONDS - 5)
    await dead.port.beat("e2")
    await live(dead, 10)
    assert dead.records.claim_abandoned(10) == []


async def test_a_process_that_leaves_is_forgotten(lane):
    lane.records.beat()
    await live(lane, GRACE_S + 1)
    await lane.port.beat(EPOCH)
    await lane.port.leave(EPOCH)
    await lane.port.leave("never")
    assert lane.records.claim_abandoned(10) == []
    assert (await lane.port.beat(EPOCH)).was_lost


async def test_what_a_leaving_process_forgot_is_abandoned_at_once(lane):
    lane.records.beat()
    await live(lane, GRACE_S + 1)
    await lane.port.beat(EPOCH)
    await lane.port.admit(EPOCH, ask("r"))
    await lane.port.leave(EPOCH)
    assert lane.records.claim_abandoned(10) == [("r", b"record")]


async def test_a_request_before_the_first_heartbeat_is_safe_for_as_long(lane):
    await lane.port.admit(EPOCH, ask("r", leases=[("t", 1)]))
    lane.later(EPOCH_EXPIRES_S - 1)
    assert await lane.port.admit("e2", ask("s", leases=[("t", 1)])) == RefusedLimit("t", 1, 1)
    assert not (await lane.port.beat(EPOCH)).was_lost


async def test_requests_of_a_dead_epoch_do_not_bring_it_back(dead):
    assert dead.records.claim_abandoned(10) == [("r", b"last")]
    await dead.port.admit(EPOCH, ask("s"))
    assert (await dead.port.beat(EPOCH)).was_lost


async def test_thousands_are_written_again_in_steps_that_do_not_time_out(lane):
    await lane.port.beat(EPOCH)
    names = [f"r{number:04}" for number in range(3000)]
    await lane.port.restore(EPOCH, [restore(name, 7, 2, leases=["t"]) for name in names])
    assert lane.records.holders("t") == names
    assert await lane.port.checkpoint(EPOCH, [checkpoint(name, 7, 3) for name in names]) == frozenset()
    assert lane.records.open_amounts() == {7: 9000}
    await lane.port.settle([settled(name, 7, 1) for name in names])
    assert lane.records.open_amounts() == {7: 3000}
    assert len(lane.records.settled_ids(5000)) == 3000


async def test_a_store_that_forgot_everything_is_told_again(redis_lane):
    lane = redis_lane
    first = await lane.port.beat(EPOCH)
    await lane.port.accounts_put([account(7, 100)])
    await lane.port.admit(EPOCH, ask("r", account=7, hold=40, leases=[("t", 1)]))
    lane.forget_everything()
    second = await lane.port.beat(EPOCH)
    assert second.was_lost
    assert second.boot_id != first.boot_id
    await lane.port.restore(EPOCH, [restore("r", 7, 40, leases=["t"])])
    await lane.port.accounts_put([account(7, 100)])
    assert await lane.port.admit(EPOCH, ask("s", account=7, leases=[("t", 2)])) == Admitted(-1, 60)
    assert lane.records.open_amounts() == {7: 40}
    assert lane.records.recompute() == {}
    assert await lane.port.admit(EPOCH, ask("u", leases=[("t", 2)])) == RefusedLimit("t", 2, 1)
    await lane.port.settle([settled("r", 7, 15)])
    assert lane.records.claim(1) == [settled("r", 7, 15)]
