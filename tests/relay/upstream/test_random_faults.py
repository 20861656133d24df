"""Seeded sequences of faults against the engine: whatever upstreams and clients do, what must hold holds.

Each attempt ends once and is told to health once, no answer holds bytes of two attempts, and nothing is
left: no task, timer, open body, running request or lease.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import httpx
import pytest

from relay.core.end_reasons import SUCCESSFUL, EndReason
from relay.core.failover import Candidate
from relay.core.outcomes import RequestOutcome
from relay.core.types import (
    Ceilings,
    DisconnectPolicy,
    KeyMode,
    ModelRoute,
    PlainSecret,
    RelayFlags,
    StreamMode,
    StreamPolicy,
    UpstreamKey,
)
from tests.fakes.runtime import (
    DONE,
    ERROR,
    ROLE,
    STOP,
    WHOLE,
    Client,
    a_channel,
    a_request,
    settle,
    with_policy,
)

JSON = {"content-type": "application/json"}
SEEDS = 1000
SEEDS_A_TEST = 50
KINDS = ("refuse", "status", "status", "silent", "stream", "stream", "whole")
COMPLETE = {EndReason.COMPLETED, EndReason.COMPLETED_WITHOUT_TERMINAL}
STATUSES = [302, 400, 401, 404, 408, 429, 500, 503, 504, 529]


@dataclass
class KeptHealth:
    chance: random.Random
    noted: list[int] = field(default_factory=list)

    def is_cooling(self, channel_id, key_id):
        return self.chance.random() < 0.1

    def note(self, verdict):
        self.noted.append(verdict.key_id)


@dataclass
class KeptLeases:
    chance: random.Random
    held: set[tuple[str, int]] = field(default_factory=set)

    async def take(self, request_id, number, candidates):
        await settle(self.chance.randrange(3))
        index = self.chance.randrange(len(candidates) + 1)
        if index == len(candidates):
            return None
        channel, key = candidates[index]
        if channel.ceilings != Ceilings() or key.ceilings != Ceilings():
            self.held.add((request_id, number))
        return index

    def give_back(self, request_id, number):
        self.held.remove((request_id, number))


@pytest.mark.parametrize("first_seed", range(0, SEEDS, SEEDS_A_TEST))
async def test_any_sequence_of_faults(runtime, first_seed):
    hedged = committed = 0
    for seed in range(first_seed, first_seed + SEEDS_A_TEST):
        try:
            outcome = await _one_sequence(runtime, random.Random(seed), is_hedged=seed % 2 == 1)
        except BaseException:
            print("seed", seed)  # noqa: T201  to repeat it
            raise
        hedged += any(attempt.is_hedge for attempt in outcome.attempts)
        committed += any(attempt.committed for attempt in outcome.attempts)
    assert min(hedged, committed) >= SEEDS_A_TEST // 20, "faults alone, no races or no answers"


async def _one_sequence(runtime, chance: random.Random, *, is_hedged: bool) -> RequestOutcome:
    """is_hedged: faults come to attempts that run side by side, in any order."""
    runtime.recorder.outcomes.clear()
    runtime.transport.exchanges.clear()
    runtime.control.current = _flags(chance)
    health = runtime.engine.health = KeptHealth(chance)
    leases = runtime.engine.leases = KeptLeases(chance)
    channels = [_channel(number, chance) for number in range(1, 4)]
    request = _hedged_request(runtime, chance) if is_hedged else _request(runtime, chance)
    first = _admitted(runtime, channels, request.id, leases) if chance.random() < 0.5 else None
    fallbacks = [Candidate(channels[-1], "other")] if chance.random() < 0.3 else []
    client = Client(runtime.engine.start(request, channels, first=first, fallbacks=fallbacks))
    await (_play_beside if is_hedged else _play)(runtime, client, chance)
    await _end(runtime, client)
    outcome = runtime.recorder.one
    assert sorted(health.noted) == sorted(attempt.upstream_key_id for attempt in outcome.attempts)
    assert len(runtime.transport.exchanges) == len(outcome.attempts)
    assert [attempt.number for attempt in outcome.attempts] == list(range(1, len(outcome.attempts) + 1))
    assert sum(attempt.committed for attempt in outcome.attempts) <= 1
    winner = next((a.number for a in outcome.attempts if a.committed), 0)
    assert not winner or winner >= len(outcome.attempts) - 1, "an attempt after the commit point"
    beside = sum(attempt.is_hedge for attempt in outcome.attempts)
    assert beside <= 1
    assert sum(attempt.end_reason is EndReason.HEDGE_LOST for attempt in outcome.attempts) <= beside
    if winner:
        assert beside or winner == len(outcome.attempts)
        assert outcome.attempts[winner - 1].end_reason is outcome.end_reason, "another end than the winner's"
    else:
        assert outcome.end_reason not in COMPLETE
        assert not outcome.attempts or outcome.end_reason in {one.end_reason for one in outcome.attempts}
    _judge_what_was_heard(client, outcome, is_opaque=request.dialect.name == "opaque")
    markers = {n for n in range(len(outcome.attempts)) if b"from-%d-" % n in client.received}
    assert markers <= {winner - 1}, "bytes of an attempt that did not win"
    if outcome.family == "chat" and client.head is not None and client.head.is_event_stream:
        is_whole = outcome.end_reason in SUCCESSFUL
        assert client.has_left or client.received.endswith(DONE) is is_whole, "it must look as whole as it is"
        assert client.has_left or is_whole or b'"error"' in client.received
    assert not leases.held
    assert not runtime.engine.hedges.running
    assert not runtime.engine.running
    assert not runtime.transport.open_bodies
    return outcome


def _judge_what_was_heard(client: Client, outcome: RequestOutcome, *, is_opaque: bool) -> None:
    """is_opaque: bytes of any meaning pass, with errors of their own."""
    if outcome.end_reason is EndReason.CLIENT_DISCONNECTED:
        return
    assert bool(client.received) is (client.refusal is None), "neither an answer nor a refusal, or both"
    if client.received and not is_opaque:
        assert (b'"error"' in client.received) is (outcome.end_reason not in COMPLETE)


def _flags(chance: random.Random) -> RelayFlags:
    return RelayFlags(
        channel_retry_times=chance.randrange(3),
        retry_times=chance.randrange(4),
        retry_budget_s=chance.choice([0.0, 30.0, 300.0]),
        images_failover=chance.random() < 0.8,
        images_failover_ambiguous=chance.random() < 0.5,
        images_failover_uncertain=chance.random() < 0.5,
        hedge_max_share=0.0 if chance.random() < 0.1 else 1.0,
    )


def _channel(number: int, chance: random.Random):
    ceilings = Ceilings(requests=1) if chance.random() < 0.4 else Ceilings()
    keys = tuple(
        UpstreamKey(number * 10 + n, "", PlainSecret("sk"), ceilings if chance.random() < 0.5 else Ceilings())
        for n in range(1, chance.randrange(2, 4))
    )
    made = replace(
        a_channel(number=number),
        keys=keys,
        ceilings=ceilings,
        key_mode=chance.choice(list(KeyMode)),
        models=("m",),
    )
    return with_policy(
        made,
        stream_policy=chance.choice(list(StreamMode)),
        early_commit_s=chance.choice([None, 0.0, 10.0]),
        tool_call_guard=False,
        disconnect_policy=chance.choice([*DisconnectPolicy, DisconnectPolicy.CANCEL]),
    )


def _request(runtime, chance: random.Random):
    path, dialect = chance.choice(
        [("/v1/chat/completions", "openai_chat")] * 4
        + [("/v1/images/generations", "opaque"), ("/v1/audio/speech", "opaque"), ("/v1/systemone", "opaque")]
    )
    route = ModelRoute(
        id=1,
        model="m",
        is_artefact=chance.random() < 0.1,
        hedge_after_s=chance.choice([0.2, 1.0, 5.0]),
        degrade_to_non_stream=chance.random() < 0.5,
    )
    return a_request(
        path=path,
        dialect=dialect,
        stream=chance.random() < 0.6,
        received_at=runtime.clock.now(),
        route=route if chance.random() < 0.6 else None,
    )


def _hedged_request(runtime, chance: random.Random):
    route = ModelRoute(
        id=1,
        model="m",
        hedge_after_s=chance.choice([0.1, 0.3]),
        degrade_to_non_stream=chance.random() < 0.5,
        policy=StreamPolicy(
            stream_policy=StreamMode.FORCE_STREAM, early_commit_s=chance.choice([None, 0.0, 10.0])
        ),
    )
    return a_request(stream=chance.random() < 0.7, received_at=runtime.clock.now(), route=route)


def _admitted(runtime, channels, request_id: str, leases: KeptLeases):
    choices = runtime.engine.first_choices(channels)
    if not choices:
        return None
    channel, key = choices[0]
    if channel.ceilings != Ceilings() or key.ceilings != Ceilings():
        leases.held.add((request_id, 0))
    return choices[0]


async def _play(runtime, client: Client, chance: random.Random) -> None:
    """Attempt by attempt a fault, until the request is over; now and then the client leaves, or an operator ends it."""
    for number in range(60):
        for _ in range(4):
            await runtime.clock.advance(0.7)  # pauses and leases
        if client.task.done() or len(runtime.transport.exchanges) <= number:
            break
        await _fault(runtime, number, chance)
        end = chance.random()
        if end < 0.06:
            await client.leave()
            break
        if end < 0.09:
            client.running.stop(EndReason.STOPPED_BY_OPERATOR)


async def _play_beside(runtime, client: Client, chance: random.Random) -> None:
    await runtime.clock.advance(chance.choice([0, 0.5, 0.5, 0.5]))
    for _ in range(60):
        await runtime.clock.advance(chance.choice([0, 0, 0, 0.3, 1.0]))
        waiting = [n for n, one in enumerate(runtime.transport.exchanges) if not one.answered.done()]
        if client.task.done():
            break
        if waiting:
            await _fault(runtime, chance.choice(waiting), chance, [*KINDS, "stream", "stream"])
        if chance.random() < 0.03:
            await client.leave()
            break


async def _end(runtime, client: Client) -> None:
    await runtime.clock.advance(20_000)
    if not client.task.cancelled():
        await client.end()
    await runtime.clock.advance(60)


async def _fault(runtime, number: int, chance: random.Random, kinds: Sequence[str] = KINDS) -> None:
    exchange = await runtime.sent(number)
    if exchange.answered.done():  # its time ran out while the one before it was played
        return
    mine = b'data: {"choices":[{"index":0,"delta":{"content":"from-%d-"}}]}\n\n' % number
    kind = chance.choice(kinds)
    if kind == "refuse":
        exchange.refuse(
            chance.choice([httpx.ConnectError("x"), httpx.ReadError("x"), httpx.RemoteProtocolError("x")])
        )
    elif kind == "status":
        exchange.headers(chance.choice(STATUSES), JSON).end()
    elif kind == "silent":
        await runtime.clock.advance(400)
    elif kind == "whole":
        body = exchange.headers(headers=JSON)
        whole = WHOLE.replace(b"Hello", b"from-%d-" % number)
        body.send(chance.choice([whole, whole, b"{}", b"<html>", b'{"error":{"message":"x"}}', WHOLE[:20]]))
        body.end()
    else:
        body = exchange.headers(headers=chance.choice([None, None, {"content-type": "text/plain"}]))
        for _ in range(chance.randrange(6)):
            body.send(
                chance.choice(
                    [ROLE, mine, mine, ERROR, STOP, DONE, b": c\n\n", b"data: broken\n\n", b"data: {"]
                )
            )
            await runtime.clock.advance(chance.choice([0, 0.5, 16, 40]))
        chance.choice([body.end, lambda: body.fail(httpx.ReadError("x")), lambda: None])()
