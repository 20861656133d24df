"""Places under ceilings. On both stores."""

import asyncio

import pytest

from billing.admission.open_record import Admitted, RefusedLimit
from tests.billing.asks import EPOCH, ask, lease_asks, settled

NO_CANDIDATE = RefusedLimit("", 0, 1)


@pytest.fixture(autouse=True)
async def alive(lane):
    await lane.port.beat(EPOCH)


async def test_a_ceiling_holds_for_any_number_at_once(lane):
    answers = await asyncio.gather(
        *(lane.port.admit(EPOCH, ask(f"r{number:02}", leases=[("images", 3)])) for number in range(20))
    )
    assert answers.count(Admitted()) == 3
    assert answers.count(RefusedLimit("images", 3, 1)) == 17
    assert len(lane.records.holders("images")) == 3


async def test_the_first_candidate_with_room_for_all_its_leases_is_taken(lane):
    channels = [[("c:1", 1), ("k:1", 9)], [("c:2", 9), ("k:2", 1)], [("c:3", 1)]]
    chosen = [(await lane.port.admit(EPOCH, ask(f"r{number}", candidates=channels))) for number in range(4)]
    assert chosen == [Admitted(0), Admitted(1), Admitted(2), NO_CANDIDATE]
    assert lane.records.holders("k:1") == ["r0"]
    assert lane.records.holders("c:2") == ["r1"]


async def test_a_further_attempt_leases_by_its_holder_and_gives_back(lane):
    await lane.port.admit(EPOCH, ask("r", leases=[("t", 1)], candidates=[[("c:1", 1)]]))
    await lane.port.admit(EPOCH, ask("other", candidates=[[("c:2", 1)]]))
    assert await lane.port.lease("r", "2", lease_asks([("c:2", 1)], [("c:3", 1)])) == 1
    assert await lane.port.lease("r", "3", lease_asks([("c:3", 1)], [("c:1", 1)])) == NO_CANDIDATE
    lane.port.release_leases("r", "")
    assert await lane.port.lease("r", "3", lease_asks([("c:3", 1)], [("c:1", 1)])) == 1
    lane.port.release_leases("r", "2")
    assert [await lane.port.state("r") is None, lane.records.holders("c:3")] == [False, []]
    assert lane.records.holders("c:1") == lane.records.holders("t") == ["r"]


async def test_what_the_admission_asked_for_in_any_case_has_a_holder_too(lane):
    await lane.port.admit(EPOCH, ask("r", leases=[("t", 1)], candidates=[[("c", 1)]]))
    lane.port.release_leases("r", "*")
    await lane.port.state("r")
    assert lane.records.holders("t") == []
    assert lane.records.holders("c") == ["r"]


async def test_one_request_may_hold_two_places_under_one_ceiling(lane):
    await lane.port.admit(EPOCH, ask("r", candidates=[[("c", 2)]]))
    assert await lane.port.lease("r", "2", lease_asks([("c", 2)])) == 0
    assert await lane.port.lease("r", "3", lease_asks([("c", 2)])) == NO_CANDIDATE
    assert lane.records.holders("c") == ["r"]
    lane.port.release_leases("r", "")
    assert await lane.port.lease("r", "3", lease_asks([("c", 2)])) == 0


async def test_leasing_again_takes_nothing_twice(lane):
    await lane.port.admit(EPOCH, ask("r"))
    for _ in range(3):
        assert await lane.port.lease("r", "2", lease_asks([("c", 1), ("k", 1)])) == 0
    lane.port.release_leases("r", "2")
    assert await lane.port.lease("r", "3", lease_asks([("c", 1), ("k", 1)])) == 0


async def test_leasing_for_a_holder_replaces_what_it_had(lane):
    await lane.port.admit(EPOCH, ask("r"))
    await lane.port.lease("r", "2", lease_asks([("c:1", 1)]))
    await lane.port.lease("r", "2", lease_asks([("c:2", 1)]))
    assert lane.records.holders("c:1") == []
    assert lane.records.holders("c:2") == ["r"]


async def test_a_record_that_is_gone_or_settled_leases_nothing(lane):
    await lane.port.settle([settled("done")])
    for name in ("gone", "done"):
        assert await lane.port.lease(name, "2", lease_asks([("c", 1)])) == 0
        lane.port.release_leases(name, "2")
    assert lane.records.holders("c") == []


async def test_no_candidates_no_lease(lane):
    await lane.port.admit(EPOCH, ask("r"))
    assert await lane.port.lease("r", "2", []) == 0


async def test_a_lease_named_twice_in_one_ask_is_one_place(lane):
    assert await lane.port.admit(EPOCH, ask("r", leases=[("t", 2), ("t", 2)])) == Admitted()
    assert await lane.port.admit(EPOCH, ask("s", leases=[("t", 2)])) == Admitted()
    assert await lane.port.admit(EPOCH, ask("u", leases=[("t", 2)])) == RefusedLimit("t", 2, 1)


async def test_names_may_be_any_text(lane):
    name = "tenant:7|*|\n\x00 é"
    await lane.port.admit(EPOCH, ask("r", leases=[(name, 1)]))
    assert await lane.port.admit(EPOCH, ask("s", leases=[(name, 1)])) == RefusedLimit(name, 1, 1)
    assert lane.records.holders(name) == ["r"]
    await lane.port.settle([settled("r")])
    assert lane.records.holders(name) == []
