"""Where there is no hedging, and its ceilings."""

from dataclasses import replace

import pytest

from relay.core.end_reasons import EndReason
from relay.core.types import Ceilings, DisconnectPolicy, RelayFlags, StreamMode
from tests.fakes.runtime import (
    NO_REPEATS,
    settle,
    with_policy,
)
from tests.relay.upstream.races import JSON, ROUTE, TWO, finish, late, reasons


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/images/generations", "opaque"),
        ("/v1/audio/speech", "opaque"),
        ("/v1/responses", "openai_responses"),
        ("/v1/systemone", "opaque"),
    ],
)
async def test_never_on_paths_that_make_artefacts_nor_where_nothing_is_known_of_the_stream(
    runtime, path, dialect
):
    client = runtime.ask(*TWO, route=ROUTE, path=path, dialect=dialect, input="hi", idempotency_key="k")
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


@pytest.mark.parametrize(
    "route",
    [replace(ROUTE, is_artefact=True), replace(ROUTE, hedge_after_s=0.0), None],
    ids=["artefact", "off", "no route"],
)
async def test_never_where_the_route_does_not_say_so(runtime, route):
    client = runtime.ask(*TWO, route=route)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


@pytest.mark.parametrize(
    "policy",
    [{"disconnect_policy": DisconnectPolicy.DRAIN}, {"stream_policy": StreamMode.FORCE_NON_STREAM}],
)
async def test_never_against_a_drained_or_whole_upstream(runtime, policy):
    changed = with_policy(TWO[0], **policy)
    client = runtime.ask(changed, TWO[1], route=ROUTE)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()
    runtime.recorder.outcomes.clear()
    client = runtime.ask(TWO[1], changed, route=ROUTE)
    await runtime.sent(1)
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 2
    await client.leave()


async def test_never_for_a_whole_answer(runtime):
    client = runtime.ask(*TWO, route=ROUTE, stream=False)
    await runtime.sent()
    await runtime.clock.advance(20)
    assert len(runtime.transport.exchanges) == 1
    await client.leave()


@pytest.mark.parametrize("flags", [{"hedge_max_share": 0.0}, {"hedge_max_running": 0}])
async def test_at_a_ceiling_there_is_no_backup_and_the_primary_goes_on(runtime, flags):
    runtime.control.current = replace(NO_REPEATS, **flags)
    client = await late(runtime)
    await runtime.clock.advance(5)
    assert len(runtime.transport.exchanges) == 1
    await finish(runtime, 0)
    await client.end()
    assert reasons(runtime) == [EndReason.COMPLETED]


async def test_so_many_backups_run_at_once_and_their_places_come_back(runtime):
    runtime.control.current = replace(NO_REPEATS, hedge_max_share=1.0, hedge_max_running=2)
    clients = [runtime.ask(*TWO, route=ROUTE) for _ in range(5)]
    await runtime.clock.advance(0.81)
    assert len(runtime.transport.exchanges) == 7
    assert runtime.engine.hedges.running == 2
    for client in clients:
        await client.leave()
    assert runtime.engine.hedges.running == 0
    assert sum(a.is_hedge for o in runtime.recorder.outcomes for a in o.attempts) == 2


class OnlyRoomAt:
    def __init__(self, channel_id: int) -> None:
        self._channel_id = channel_id

    async def take(self, request_id, number, candidates):
        ids = [channel.id for channel, _ in candidates]
        return ids.index(self._channel_id) if self._channel_id in ids else None

    def give_back(self, request_id, number): ...


async def test_the_same_key_rests_although_it_is_next_only_because_the_others_are_full(runtime):
    runtime.engine.leases = OnlyRoomAt(1)
    runtime.control.current = RelayFlags(channel_retry_times=1)
    client = runtime.ask(*(replace(one, ceilings=Ceilings(requests=1)) for one in TWO), route=ROUTE)
    (await runtime.sent()).headers(503, JSON).end()
    await settle()
    assert len(runtime.transport.exchanges) == 1
    await runtime.clock.advance(2.1)
    await finish(runtime, 1)
    await client.end()
    assert [one.channel_id for one in runtime.recorder.one.attempts] == [1, 1]
