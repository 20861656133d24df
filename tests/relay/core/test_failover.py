"""The order of attempts: which key and channel come next, and what ends the walk. Nothing is sent here."""

from dataclasses import dataclass, field, replace

import pytest

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed
from relay.core.failover import Candidate, Kind, Step, Traits, Walk
from relay.core.types import Channel, PlainSecret, RelayFlags, UpstreamKey

TEXT = Traits("m", is_replayable=True, draws=False)
IMAGE = Traits("m", is_replayable=False, draws=True)
TIER_1 = RelayFlags(images_failover=True)
TIER_2 = RelayFlags(images_failover=True, images_failover_ambiguous=True)
TIER_3 = RelayFlags(images_failover=True, images_failover_uncertain=True)


@dataclass
class World:
    current: RelayFlags = field(default_factory=RelayFlags)
    elapsed: float = 0.0
    out: set[int] = field(default_factory=set)
    cooling: set[int] = field(default_factory=set)
    out_by_itself: set[int] = field(default_factory=set)
    number: float = 0.5

    def flags(self) -> RelayFlags:
        return self.current

    def elapsed_s(self) -> float:
        return self.elapsed

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool:
        return key.id not in self.out

    def is_auto_disabled(self, key: UpstreamKey) -> bool:
        return key.id in self.out_by_itself

    def is_cooling(self, channel_id: int, key_id: int) -> bool:
        return key_id in self.cooling

    def keys_of(self, channel: Channel):
        return channel.keys

    def random(self) -> float:
        return self.number


def channel(number: int, keys: int = 1, models: tuple[str, ...] = ("m",)) -> Channel:
    made = tuple(UpstreamKey(number * 10 + n, "", PlainSecret("")) for n in range(1, keys + 1))
    return Channel(id=number, name=f"c{number}", kind="openai", base_url="http://x", models=models, keys=made)


def rejected(status: int, **fields) -> AttemptFailed:
    return AttemptFailed(EndReason.UPSTREAM_REJECTED, status=status, **fields)


REFUSED = AttemptFailed(EndReason.CONNECT_FAILED, error_class="ConnectError")
TIMED_OUT = AttemptFailed(EndReason.HEADER_TIMEOUT, error_class="timeout")
CUT = AttemptFailed(EndReason.UPSTREAM_RESET, error_class="ReadError")
EMPTY = AttemptFailed(EndReason.EMPTY_RESPONSE, error_class="empty_body")


def walked(walk: Walk, *failures: AttemptFailed) -> list[Step]:
    """The steps taken while attempt after attempt fails so; the last failure repeats to the end."""
    steps: list[Step] = []
    failure = None
    for number in range(100):
        step = next(walk.options(failure), None)
        if step is None:
            return steps
        walk.take(step)
        steps.append(step)
        failure = failures[min(number, len(failures) - 1)]
    raise AssertionError("the walk does not end")


def keys(steps: list[Step]) -> list[int]:
    return [step.key.id for step in steps]


def a_walk(traits: Traits, world: World, *channels: Channel, fallbacks=(), first=None) -> Walk:
    candidates = [Candidate(one, "m") for one in channels] + list(fallbacks)
    return Walk(traits, candidates, world, first)


TWO_BY_TWO = (channel(1, 2), channel(2, 2))


@pytest.mark.parametrize(
    ("failure", "tried"),
    [
        (rejected(500), [11, 11, 12, 12, 21, 21, 22, 22]),
        (rejected(503), [11, 11, 12, 12, 21, 21, 22, 22]),
        (REFUSED, [11, 11, 12, 12, 21, 21, 22, 22]),
        (rejected(429), [11, 12, 21, 22]),
        (rejected(401), [11, 12, 21, 22]),
        (rejected(402), [11, 12, 21, 22]),
        (rejected(403), [11, 12, 21, 22]),
        (rejected(404), [11, 12, 21, 22]),
        (rejected(408), [11, 12, 21, 22]),
        (rejected(409), [11, 12, 21, 22]),
        (rejected(425), [11, 12, 21, 22]),
        (CUT, [11, 12, 21, 22]),
        (EMPTY, [11, 12, 21, 22]),
        (TIMED_OUT, [11, 21]),
        (AttemptFailed(EndReason.FIRST_BYTE_TIMEOUT), [11, 21]),
        (AttemptFailed(EndReason.FIRST_EVENT_TIMEOUT), [11, 21]),
        (AttemptFailed(EndReason.CONNECT_FAILED, error_class="ConnectTimeout"), [11, 21]),
        (AttemptFailed(EndReason.CONNECT_FAILED, error_class="secret_Lost"), [11, 12, 21, 22]),
        (AttemptFailed(EndReason.NON_STREAM_TIMEOUT), [11]),
        (AttemptFailed(EndReason.RESPONSE_TOO_LARGE), [11]),
        (rejected(400), [11]),
        (rejected(422), [11]),
    ],
)
def test_order_of_attempts_by_failure(failure, tried):
    assert keys(walked(a_walk(TEXT, World(), *TWO_BY_TWO), failure)) == tried


def test_404_of_a_model_that_is_only_offered_ends_the_walk():
    walk = a_walk(TEXT, World(), channel(1, 2, ("*",)), channel(2))
    assert keys(walked(walk, rejected(404))) == [11]
    assert walk.ended_by == "not retried for this failure"


def test_a_request_that_may_not_be_replayed_is_sent_once():
    walk = a_walk(Traits("m", is_replayable=False, draws=False), World(), *TWO_BY_TWO)
    assert keys(walked(walk, rejected(503))) == [11]
    assert walk.ended_by == "not replayable"


def test_the_same_key_is_repeated_as_often_as_the_flag_says():
    world = World(RelayFlags(channel_retry_times=3))
    steps = walked(a_walk(TEXT, world, channel(1, 1)), rejected(500))
    assert keys(steps) == [11] * 4
    assert [step.kind for step in steps] == [Kind.FIRST] + [Kind.SAME_KEY] * 3
    world.current = RelayFlags(channel_retry_times=0)
    assert keys(walked(a_walk(TEXT, world, channel(1, 1)), rejected(500))) == [11]


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0 - 2**-53])
def test_the_same_key_rests_between_a_fifth_of_a_second_and_two(number):
    world = World(RelayFlags(channel_retry_times=4), number=number)
    delays = [step.delay_s for step in walked(a_walk(TEXT, world, channel(1)), rejected(500))]
    assert delays[0] == 0.0
    assert all(0.2 <= delay <= 2.0 for delay in delays[1:])
    assert delays[1:] == sorted(delays[1:])


def test_other_keys_and_channels_do_not_wait():
    steps = walked(a_walk(TEXT, World(), *TWO_BY_TWO), rejected(429))
    assert {step.delay_s for step in steps} == {0.0}


def test_retry_times_counts_further_channels_and_no_keys():
    world = World(RelayFlags(retry_times=1, channel_retry_times=1))
    walk = a_walk(TEXT, world, channel(1, 2), channel(2, 2), channel(3, 2))
    assert keys(walked(walk, rejected(500))) == [11, 11, 12, 12, 21, 21, 22, 22]
    assert walk.ended_by == "RETRY_TIMES is used up"


def test_a_refused_key_is_out_even_where_the_channel_comes_again():
    only = channel(1, 2)
    walk = a_walk(TEXT, World(), only, fallbacks=[Candidate(only, "other")])
    steps = walked(walk, rejected(401), rejected(500))
    assert keys(steps) == [11, 12, 12, 12, 12]
    assert [step.candidate.model for step in steps] == ["m", "m", "m", "other", "other"]


def test_cooling_and_disabled_keys_are_skipped():
    walk = a_walk(TEXT, World(cooling={11}, out={21}), *TWO_BY_TWO)
    assert keys(walked(walk, rejected(429))) == [12, 22]


def test_everything_cooling_offers_nothing():
    walk = a_walk(TEXT, World(cooling={11, 12, 21, 22}), *TWO_BY_TWO)
    assert walked(walk, rejected(429)) == []
    assert walk.ended_by == "every candidate is out or cooling down"


def test_the_budget_is_looked_at_before_each_new_attempt_a_pause_included():
    world = World(RelayFlags(retry_budget_s=10))
    walk = a_walk(TEXT, world, channel(1), channel(2))
    walk.take(next(walk.options(None)))
    world.elapsed = 9.9
    kinds = [step.kind for step in walk.options(rejected(500))]
    assert kinds == [Kind.NEXT_CHANNEL], "a pause would end behind the budget"
    world.elapsed = 10.0
    assert not list(walk.options(rejected(500)))
    assert walk.ended_by == "the retry budget is used up"


def test_flags_are_looked_at_anew_each_time():
    world = World()
    walk = a_walk(TEXT, world, channel(1), channel(2))
    walk.take(next(walk.options(None)))
    world.current = RelayFlags(retry_times=0, channel_retry_times=0)
    assert not list(walk.options(rejected(500)))


def test_a_lease_taken_at_admission_begins_the_walk():
    first = (TWO_BY_TWO[1], TWO_BY_TWO[1].keys[1])
    walk = a_walk(TEXT, World(), *TWO_BY_TWO, first=first)
    assert keys(walked(walk, rejected(429))) == [22, 21, 11, 12]


def test_what_was_passed_over_for_want_of_room_does_not_come_back():
    walk = a_walk(TEXT, World(), channel(1, 3), channel(2))
    options = {step.key.id: step for step in walk.options(None)}
    walk.take(options[12])
    assert [step.key.id for step in walk.options(rejected(429))] == [13, 21]


def test_a_broken_tool_call_is_asked_whole_once_and_then_goes_the_normal_way():
    broken = AttemptFailed(EndReason.UPSTREAM_PROTOCOL_ERROR, error_class="tool_call_invalid")
    steps = walked(a_walk(TEXT, World(), channel(1), channel(2)), broken, rejected(400))
    assert [step.kind for step in steps] == [Kind.FIRST, Kind.AS_WHOLE]
    steps = walked(a_walk(TEXT, World(), channel(1), channel(2)), broken)
    assert [step.kind for step in steps] == [Kind.FIRST, Kind.AS_WHOLE, Kind.NEXT_CHANNEL, Kind.AS_WHOLE]


OTHER = channel(5, 1, ("other",))


def test_a_fallback_model_follows_the_last_candidate_and_has_retry_times_of_its_own():
    world = World(RelayFlags(retry_times=1, channel_retry_times=0))
    fallbacks = [Candidate(OTHER, "other"), Candidate(channel(6), "other"), Candidate(channel(7), "other")]
    walk = a_walk(TEXT, world, channel(1), channel(2), channel(3), fallbacks=fallbacks)
    steps = walked(walk, rejected(500))
    assert keys(steps) == [11, 21, 51, 61]
    assert [step.kind for step in steps] == [
        Kind.FIRST, Kind.NEXT_CHANNEL, Kind.FALLBACK, Kind.FALLBACK,
    ]  # fmt: skip


def test_a_fallback_model_serves_where_no_channel_of_the_asked_one_is_there():
    assert keys(walked(a_walk(TEXT, World(), fallbacks=[Candidate(OTHER, "other")]), rejected(400))) == [51]


@pytest.mark.parametrize("traits", [IMAGE, Traits("m", is_replayable=False, draws=False)])
def test_no_fallback_for_what_may_not_be_replayed(traits):
    walk = a_walk(traits, World(TIER_3), channel(1), fallbacks=[Candidate(OTHER, "other")])
    assert 51 not in keys(walked(walk, rejected(503)))


@pytest.mark.parametrize(
    ("flags", "failure", "tried"),
    [
        (RelayFlags(), rejected(429), [11]),
        (TIER_1, rejected(429), [11, 12, 21, 22]),
        (TIER_1, rejected(402), [11]),
        (TIER_1, rejected(500), [11]),
        (TIER_1, REFUSED, [11]),
        (TIER_2, rejected(500), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_2, rejected(524), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_2, rejected(503), [11, 12, 21, 22]),
        (TIER_2, rejected(529), [11, 12, 21, 22]),
        (TIER_2, rejected(530), [11, 12, 21, 22]),
        (TIER_2, rejected(504), [11]),
        (TIER_3, rejected(429), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, rejected(401), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, rejected(418), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, CUT, [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, TIMED_OUT, [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, AttemptFailed(EndReason.NON_STREAM_TIMEOUT), [11, 11, 12, 12, 21, 21, 22, 22]),
        (TIER_3, AttemptFailed(EndReason.RESPONSE_TOO_LARGE), [11]),
        (TIER_3, AttemptFailed(EndReason.GATEWAY_ERROR), [11]),
    ],
)
def test_order_of_attempts_for_pictures(flags, failure, tried):
    assert keys(walked(a_walk(IMAGE, World(flags), *TWO_BY_TWO), failure)) == tried


def test_pictures_know_neither_retry_times_nor_a_budget():
    flags = RelayFlags(images_failover=True, retry_times=0, retry_budget_s=0)
    walk = a_walk(IMAGE, World(flags, elapsed=1e6), channel(1), channel(2), channel(3), channel(4))
    assert keys(walked(walk, rejected(429))) == [11, 21, 31, 41]


def test_a_mark_set_by_the_request_itself_does_not_take_its_keys():
    world = World(TIER_3)
    walk = a_walk(IMAGE, world, channel(1, 2), channel(2))
    tried, failure = [], None
    while step := next(walk.options(failure), None):
        walk.take(step)
        tried.append(step.key.id)
        failure = rejected(429)
        world.cooling.update({11, 12})  # the whole channel rests after its first 429
    assert tried == [11, 11, 12, 12, 21, 21]


def test_a_key_that_cooled_before_the_request_is_not_in_its_walk():
    assert keys(walked(a_walk(IMAGE, World(TIER_1, cooling={12}), *TWO_BY_TWO), rejected(429))) == [
        11,
        21,
        22,
    ]


def test_each_replay_beyond_the_first_tier_may_be_paid_twice():
    steps = walked(
        a_walk(IMAGE, World(TIER_3), channel(1, 3)), rejected(429), rejected(500), CUT, rejected(503)
    )
    assert [step.possible_duplicate_charge for step in steps] == [False, False, True, True, False, False]
    steps = walked(a_walk(TEXT, World(), channel(1, 3)), rejected(500))
    assert not any(step.possible_duplicate_charge for step in steps)


@pytest.mark.parametrize(("traits", "expected"), [(IMAGE, [11, 12, 21]), (TEXT, [11, 21])])
def test_a_key_that_failures_took_out_stays_in_the_budget_of_a_picture(traits, expected):
    world = World(current=replace(TIER_3, channel_retry_times=0))
    walk = a_walk(traits, world, channel(1, keys=2), channel(2))
    walk.take(next(walk.options(None)))
    world.out = world.out_by_itself = {12}
    steps = [walk.current]
    while step := next(walk.options(rejected(401)), None):
        walk.take(step)
        steps.append(step)
    assert keys(steps) == expected


def test_a_key_that_was_taken_out_by_hand_is_out_for_a_picture_too():
    world = World(current=replace(TIER_3, channel_retry_times=0))
    walk = a_walk(IMAGE, world, channel(1, keys=2), channel(2))
    walk.take(next(walk.options(None)))
    world.out = {12}
    assert next(walk.options(rejected(500))).key.id == 21
