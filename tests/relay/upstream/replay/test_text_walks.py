"""Keys, channels, leases and what the client hears, for requests that may be replayed; on real sockets."""

from dataclasses import dataclass, field

import orjson
import pytest

from relay.core.failover import Candidate
from relay.core.health import Blames
from relay.core.types import Ceilings, ModelRoute, RelayFlags, StreamMode, StreamPolicy
from tests.fakes.runtime import DONE, HELLO, STOP, WHOLE, Client, a_request
from tests.fakes.scripted_upstream import Send, ok
from tests.relay.upstream.replay.conftest import JSON

STREAM = [Send(ok(HELLO + STOP + DONE, b"content-type: text/event-stream"))]
ANSWER = [Send(ok(WHOLE, JSON))]
SHORT = RelayFlags(header_timeout_s=0.05)


@pytest.mark.parametrize(
    ("outcome", "walk"),
    [
        (500, [11, 11, 12, 12, 21, 21]),
        (529, [11, 11, 12, 12, 21, 21]),
        ("refused", [11, 11, 12, 12, 21, 21]),
        (429, [11, 12, 21]),
        (401, [11, 12, 21]),
        (402, [11, 12, 21]),
        (403, [11, 12, 21]),
        (404, [11, 12, 21]),
        (408, [11, 12, 21]),
        ("reset", [11, 12, 21]),
        ("error 2xx", [11, 12, 21]),
        ("html 2xx", [11, 12, 21]),
        ("empty 2xx", [11, 12, 21]),
        ("silence", [11, 21]),
        (400, [11]),
        (413, [11]),
        (422, [11]),
    ],
)
async def test_walk_by_failure(bench, outcome, walk):
    bench.control.current = SHORT
    await bench.channel(outcome, keys=2)
    await bench.channel(outcome)
    await bench.ask(stream=True)
    assert bench.received == walk
    assert not any(attempt.possible_duplicate_charge for attempt in bench.recorder.one.attempts)


async def test_every_attempt_says_why_it_was_made_and_what_follows(bench):
    await bench.channel(500, 401, keys=2)
    await bench.channel(429)
    client = await bench.ask()
    told = [attempt.decision for attempt in bench.recorder.one.attempts]
    assert told == [
        "first choice: priority 0, weight 1; same key again",
        "same key again after 0.0 s; next key",
        "next key; next channel",
        "next channel: priority 0, weight 1; nothing left to try",
    ]
    assert client.running.attempts == 4


async def test_all_credentials_refused_is_the_operators_business(bench):
    await bench.channel(401, 403, keys=2)
    await bench.channel(402)
    client = await bench.ask()
    assert bench.received == [11, 12, 21]
    assert (client.refusal.status, client.refusal.code) == (502, "upstream_credentials_exhausted")


async def test_429_rests_the_key_for_all_and_retry_after_is_told(bench):
    await bench.channel(429)
    answer = ok(b"{}", JSON, b"retry-after: 45", status=b"429 Busy")
    bench.upstreams[0].scripts = [[Send(answer)]]
    client = await bench.ask()
    [verdict] = bench.health.verdicts
    assert (verdict.cooldown_s, verdict.blames) == (45, Blames.KEY)
    assert (client.refusal.status, client.refusal.retry_after_s) == (429, 45)
    bench.recorder.outcomes.clear()
    client = await bench.ask()
    assert (client.refusal.status, client.refusal.code) == (503, "no_channel_available")
    assert len(bench.upstreams[0].requests) == 1, "a key that rests is left alone"
    assert bench.engine.first_choices(bench.channels) == []


async def test_round_robin_begins_one_key_further_with_each_request(bench):
    await bench.channel(400, keys=3)
    for _ in range(4):
        await bench.ask()
    first = [outcome.attempts[0].upstream_key_id for outcome in bench.recorder.outcomes]
    assert first == [11, 12, 13, 11]


@dataclass
class CountedLeases:
    """full: keys without room."""

    full: set[int] = field(default_factory=set)
    held: list[tuple[str, int]] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)

    async def take(self, request_id, number, candidates):
        self.asked.append([key.id for _, key in candidates])
        for index, (_, key) in enumerate(candidates):
            if key.id not in self.full:
                self.held.append((request_id, number))
                return index
        return None

    def give_back(self, request_id, number):
        if (request_id, number) in self.held:
            self.held.remove((request_id, number))
        else:
            assert number == 0, "given back what was not taken"
            self.asked.append([0])


LIMITED = Ceilings(requests=1)


async def test_a_lease_of_admission_begins_the_walk_and_goes_with_its_attempt(bench):
    leases = bench.engine.leases = CountedLeases()
    await bench.channel(429, keys=2, ceilings=LIMITED)
    await bench.channel(429)
    first = bench.engine.first_choices(bench.channels)[1]
    request = a_request(received_at=bench.engine.clock.now())
    await Client(bench.engine.start(request, bench.channels, first=first)).end()
    assert bench.received == [12, 11, 21]
    assert leases.asked == [[0], [11, 21]], "the last one has no ceiling: nobody is asked"
    assert leases.held == []


async def test_a_candidate_without_room_is_passed_over(bench):
    leases = bench.engine.leases = CountedLeases(full={11, 12})
    await bench.channel(429, keys=2, ceilings=LIMITED)
    await bench.channel(429, ceilings=LIMITED)
    await bench.ask()
    assert bench.received == [21]
    assert leases.held == []


async def test_no_room_anywhere_ends_the_walk(bench):
    bench.engine.leases = CountedLeases(full={11, 21})
    await bench.channel(429, ceilings=LIMITED)
    await bench.channel(429, ceilings=LIMITED)
    client = await bench.ask()
    assert bench.received == []
    assert (client.refusal.status, client.refusal.code) == (503, "no_channel_available")


BROKEN_CALL = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function",'
    b'"function":{"name":"f","arguments":"{\\"a\\":"}}]},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n' + DONE
)


async def test_a_broken_tool_call_of_an_aggregate_is_asked_whole_of_the_same_channel(bench):
    policy = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)
    await bench.channel(503, keys=2, policy=policy)
    broken = [Send(ok(BROKEN_CALL, b"content-type: text/event-stream"))]
    bench.upstreams[0].scripts = [broken, ANSWER]
    client = await bench.ask(stream=False)
    assert bench.received == [11, 11]
    asked = [orjson.loads(request.body).get("stream", False) for request in bench.upstreams[0].requests]
    assert asked == [True, False]
    assert bytes(client.received) == WHOLE


async def test_after_the_whole_request_the_order_is_the_normal_one(bench):
    policy = StreamPolicy(stream_policy=StreamMode.FORCE_STREAM)
    await bench.channel(503, keys=2, policy=policy)
    await bench.channel(503)
    broken = [Send(ok(BROKEN_CALL, b"content-type: text/event-stream"))]
    bench.upstreams[0].scripts = [broken, *bench.upstreams[0].scripts]
    bench.upstreams[1].scripts = [ANSWER]
    await bench.ask(stream=False)
    assert bench.received == [11, 11, 11, 12, 12, 21]


async def test_a_fallback_model_answers_and_is_named(bench):
    await bench.channel(503)
    await bench.channel(503, model_mapping={"other": "other-sent"})
    bench.upstreams[1].scripts = [STREAM]
    asked, other = bench.channels
    bench.control.current = RelayFlags(retry_times=0, channel_retry_times=0)
    request = a_request(received_at=bench.engine.clock.now())
    running = bench.engine.start(request, [asked], fallbacks=[Candidate(other, "other")])
    client = await Client(running).end()
    assert bench.received == [11, 21]
    assert orjson.loads(bench.upstreams[1].requests[0].body)["model"] == "other-sent"
    assert running.fallback_model == bench.recorder.one.model_served == "other"
    assert bytes(client.received) == HELLO + STOP + DONE


DRAWS = ModelRoute(id=1, model="m", is_artefact=True)


async def test_an_artefact_through_chat_follows_the_row_of_images(bench):
    await bench.channel(503, keys=2)
    request = a_request(received_at=bench.engine.clock.now(), idempotency_key="k", route=DRAWS)
    await Client(bench.engine.start(request, bench.channels)).end()
    assert bench.received == [11]
    bench.recorder.outcomes.clear()
    bench.health.verdicts.clear()
    bench.upstreams[0].requests.clear()
    bench.control.current = RelayFlags(images_failover=True)
    request = a_request(received_at=bench.engine.clock.now(), route=DRAWS)
    await Client(bench.engine.start(request, bench.channels)).end()
    assert sorted(bench.received) == [11, 12]


async def test_the_routes_policy_goes_before_the_channels(bench):
    await bench.channel(503, policy=StreamPolicy(stream_policy=StreamMode.FORCE_NON_STREAM))
    bench.upstreams[0].scripts = [STREAM]
    route = ModelRoute(id=1, model="m", policy=StreamPolicy(stream_policy=StreamMode.FORCE_STREAM))
    request = a_request(stream=False, received_at=bench.engine.clock.now(), route=route)
    client = await Client(bench.engine.start(request, bench.channels)).end()
    assert orjson.loads(bench.upstreams[0].requests[0].body)["stream"] is True
    assert orjson.loads(bytes(client.received))["choices"][0]["message"]["content"] == "Hello"
