"""Where a first attempt may go: no further than admission needs to look, and every channel keeps its turn."""

from dataclasses import replace

from relay.core.failover import Candidate
from relay.core.types import Ceilings, Channel, PlainSecret, UpstreamKey
from tests.fakes.runtime import KeptOutcomes, a_channel, an_engine

LIMITED = Ceilings(requests=1)


def channel_with(number: int, *, keys: int = 1, ceilings: Ceilings | None = None) -> Channel:
    made = tuple(UpstreamKey(number * 10 + n, f"k{n}", PlainSecret("s")) for n in range(1, keys + 1))
    channel = replace(a_channel(number=number), keys=made)
    return channel if ceilings is None else replace(channel, ceilings=ceilings)


def an_idle_engine():
    return an_engine(None, recorder=KeptOutcomes())


def keys_of(choices) -> list[int]:
    return [key.id for _, key in choices]


async def test_the_first_without_a_ceiling_ends_the_list():
    channels = [channel_with(1, ceilings=LIMITED), channel_with(2), channel_with(3)]
    assert keys_of(an_idle_engine().first_choices(channels)) == [11, 21]


async def test_where_all_are_limited_all_are_named():
    channels = [channel_with(number, keys=2, ceilings=LIMITED) for number in (1, 2)]
    assert keys_of(an_idle_engine().first_choices(channels)) == [11, 12, 21, 22]


async def test_a_channel_that_is_not_looked_at_keeps_its_turn_of_keys():
    engine = an_idle_engine()
    first, second = channel_with(1, keys=2), channel_with(2, keys=2)
    assert [keys_of(engine.first_choices([first, second])) for _ in range(3)] == [[11], [12], [11]]
    assert keys_of(engine.first_choices([second])) == [21]


async def test_fallbacks_are_named_where_no_candidate_has_room_in_any_case():
    limited, free = channel_with(1, ceilings=LIMITED), channel_with(2)
    fallbacks = [Candidate(channel_with(3), "other")]
    assert keys_of(an_idle_engine().first_choices([limited], fallbacks)) == [11, 31]
    assert keys_of(an_idle_engine().first_choices([limited, free], fallbacks)) == [11, 21]
    assert keys_of(an_idle_engine().first_choices([], fallbacks)) == [31]


async def test_a_channel_that_is_its_own_fallback_is_named_once():
    both = channel_with(1, keys=2, ceilings=LIMITED)
    assert keys_of(an_idle_engine().first_choices([both], [Candidate(both, "other")])) == [11, 12]


async def test_a_thousand_channels_are_not_walked():
    engine = an_idle_engine()
    looked_at: list[int] = []
    keys = engine.keys_of
    engine.keys_of = lambda channel: (looked_at.append(channel.id), keys(channel))[1]
    engine.first_choices([channel_with(number) for number in range(1, 1001)])
    assert looked_at == [1]
