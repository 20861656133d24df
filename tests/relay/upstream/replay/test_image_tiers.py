"""Image failover on real sockets: outcome × tier × where the next attempt could go."""

import asyncio
from dataclasses import replace

import pytest

from relay.core.types import RelayFlags
from tests.fakes.scripted_upstream import Send, WaitFor, ok
from tests.relay.upstream.replay.conftest import JSON, PICTURE, script_of

TIERS = {
    "off": RelayFlags(),
    "off, ranges on": RelayFlags(images_failover_ambiguous=True, images_failover_uncertain=True),
    "tier 1": RelayFlags(images_failover=True),
    "tier 2": RelayFlags(images_failover=True, images_failover_ambiguous=True),
    "tier 3": RelayFlags(
        images_failover=True, images_failover_ambiguous=True, images_failover_uncertain=True
    ),
    "uncertain alone": RelayFlags(images_failover=True, images_failover_uncertain=True),
}
ONCE, ELSEWHERE, SAME_KEY = "once", "elsewhere", "same key too"

REFUSED_BEFORE = (ONCE, ELSEWHERE, ELSEWHERE, SAME_KEY)
SERVER_ERROR = (ONCE, ONCE, SAME_KEY, SAME_KEY)
UNCERTAIN = (ONCE, ONCE, ONCE, SAME_KEY)
OUTCOMES = {
    **dict.fromkeys((429, 503, 529, 530), REFUSED_BEFORE),
    **dict.fromkeys((400, 401, 403, 404, 405, 413, 415, 422), REFUSED_BEFORE),
    **dict.fromkeys((500, 501, 502, 505, 520, 524, 599), SERVER_ERROR),
    504: UNCERTAIN,
    "refused": UNCERTAIN,
    "reset": UNCERTAIN,
    "cut before headers": UNCERTAIN,
    "cut in the body": UNCERTAIN,
    "empty 2xx": UNCERTAIN,
    "html 2xx": UNCERTAIN,
    "no json 2xx": UNCERTAIN,
    "error 2xx": UNCERTAIN,
    "silence": UNCERTAIN,
    "silence in the body": UNCERTAIN,
    **dict.fromkeys((302, 402, 406, 408, 409, 410, 418, 425, 451), UNCERTAIN),
}
COLUMN = {"off": 0, "off, ranges on": 0, "tier 1": 1, "tier 2": 2, "tier 3": 3, "uncertain alone": 3}

WALKS = {
    "same key": {ONCE: [11], ELSEWHERE: [11], SAME_KEY: [11, 11]},
    "other key": {ONCE: [11], ELSEWHERE: [11, 12], SAME_KEY: [11, 11, 12, 12]},
    "other channel": {ONCE: [11], ELSEWHERE: [11, 21], SAME_KEY: [11, 11, 21, 21]},
}
SHORT = {"image_header_timeout_s": 0.05, "header_timeout_s": 5.0, "non_stream_timeout_s": 5.0}


@pytest.mark.parametrize("where", WALKS)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_each_cell(bench, outcome, tier, where):
    short = SHORT if outcome == "silence" else {}
    bench.control.current = replace(TIERS[tier], **short)
    total = {"non_stream_timeout_s": 0.05} if outcome == "silence in the body" else {}
    await bench.channel(outcome, keys=2 if where == "other key" else 1, **total)
    if where == "other channel":
        await bench.channel(outcome, **total)
    await bench.draw()
    expected = WALKS[where][OUTCOMES[outcome][COLUMN[tier]]]
    assert bench.received == expected
    flagged = [attempt.possible_duplicate_charge for attempt in bench.recorder.one.attempts]
    is_beyond_tier_1 = OUTCOMES[outcome][1] == ONCE
    assert flagged == [False] + [is_beyond_tier_1] * (len(expected) - 1)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_picture_ends_the_walk_and_the_key_of_the_request_changes_nothing(bench, tier, key):
    bench.control.current = TIERS[tier]
    await bench.channel(503, keys=1)
    await bench.channel("empty 2xx")
    bench.upstreams[1].scripts = [[Send(ok(PICTURE, JSON))]]
    client = await bench.draw(idempotency_key=key)
    walks = {0: [11], 1: [11, 21], 2: [11, 21], 3: [11, 11, 21]}
    assert bench.received == walks[COLUMN[tier]]
    assert bytes(client.received) == (PICTURE if COLUMN[tier] else b"")


async def test_tier_1_with_two_keys_and_a_second_channel_429(bench):
    bench.control.current = TIERS["tier 1"]
    await bench.channel(429, keys=2)
    await bench.channel(429)
    client = await bench.draw()
    assert bench.received == [11, 12, 21]
    assert client.refusal.status == 429


async def test_tier_3_repeats_one_key_as_often_as_the_flag_says_after_a_cut(bench):
    bench.control.current = replace(TIERS["tier 3"], channel_retry_times=3)
    await bench.channel("cut in the body")
    await bench.draw()
    assert bench.received == [11] * 4


@pytest.mark.parametrize(
    ("tier", "outcome", "requests"),
    [
        ("tier 2", 500, 2),
        ("tier 2", 503, 1),
        ("tier 2", 504, 1),
        ("tier 2", 524, 2),
        ("tier 3", 429, 2),
        ("tier 3", 401, 2),
        ("tier 1", "refused", 1),
        ("uncertain alone", 504, 2),
    ],
)
async def test_one_key(bench, tier, outcome, requests):
    bench.control.current = TIERS[tier]
    await bench.channel(outcome)
    await bench.draw()
    assert bench.received == [11] * requests


async def test_neither_retry_times_nor_the_budget_ends_the_walk(bench):
    bench.control.current = replace(TIERS["tier 1"], retry_times=0, retry_budget_s=0.0)
    for _ in range(4):
        await bench.channel(429)
    await bench.draw()
    assert bench.received == [11, 21, 31, 41]


async def test_an_image_header_timeout_is_obeyed_and_the_other_one_is_not(bench):
    bench.control.current = replace(TIERS["off"], header_timeout_s=0.01, image_header_timeout_s=0.2)
    await bench.channel("silence")
    client = await bench.draw()
    [attempt] = bench.recorder.one.attempts
    assert attempt.end_reason == "header_timeout"
    assert 200 <= attempt.duration_ms < 1000
    assert client.refusal.status == 504


async def test_switched_off_meanwhile_is_off(bench):
    bench.control.current = TIERS["tier 1"]
    await bench.channel(429, keys=2)
    may_answer = asyncio.Event()
    bench.upstreams[0].scripts = [[WaitFor(may_answer), *script_of(429)]]
    client = bench.begin(path="/v1/images/generations", dialect="opaque", stream=False)
    await bench.upstreams[0].wait_requests(1)
    bench.control.current = TIERS["off"]
    may_answer.set()
    await client.end()
    assert bench.received == [11]


async def test_a_client_that_leaves_during_the_first_attempt_causes_no_second(bench):
    bench.control.current = TIERS["tier 3"]
    await bench.channel("silence", keys=2)
    client = bench.begin(path="/v1/images/generations", dialect="opaque", stream=False)
    await bench.upstreams[0].wait_requests(1)
    await client.leave()
    await bench.upstreams[0].connections[0].wait_lost(0.1)
    assert bench.received == [11]
    assert bench.recorder.one.end_reason == "client_disconnected"


async def test_a_client_that_leaves_while_the_same_key_rests_causes_no_second(bench, monkeypatch):
    monkeypatch.setattr("relay.core.failover.MIN_PAUSE_S", 30.0)
    bench.control.current = TIERS["tier 3"]
    await bench.channel(503)
    client = bench.begin(path="/v1/images/generations", dialect="opaque", stream=False)
    while not bench.health.verdicts:
        await asyncio.sleep(0.005)
    await client.leave()
    assert bench.received == [11]
    assert bench.recorder.one.attempts[0].decision.endswith("stopped")


async def test_pictures_that_are_no_json_pass_as_they_come(bench):
    await bench.channel(503)
    bench.upstreams[0].scripts = [[Send(ok(b"\x89PNG...", b"content-type: image/png"))]]
    client = await bench.draw()
    assert bytes(client.received) == b"\x89PNG..."
    assert client.head.status == 200
