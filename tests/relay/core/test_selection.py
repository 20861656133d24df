"""Which channels serve a model, and in which order."""

import itertools
import random
import time
from collections import Counter
from typing import Any

import pytest

from relay.core.selection import (
    ChannelIndex,
    claims,
    close_names,
    is_model_allowed,
    keys_in_order,
    listed_models,
    matches,
    model_sent,
    order,
)
from relay.core.types import Channel, KeyMode, PlainSecret, UpstreamKey

KEYS = tuple(UpstreamKey(id=number, label=f"k{number}", secret=PlainSecret("s")) for number in (1, 2, 3))


def channel(number: int, *models: str, **fields: Any) -> Channel:
    values: dict[str, Any] = {"keys": KEYS[:1], "kind": "openai", **fields}
    return Channel(id=number, name=f"c{number}", base_url="https://x.org", models=models, **values)


def ids(tiers: tuple[tuple[Channel, ...], ...]) -> list[list[int]]:
    return [[item.id for item in tier] for tier in tiers]


class Scripted:
    """Chance, written down."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0)


@pytest.mark.parametrize(
    ("pattern", "model", "expected"),
    [
        ("gpt-4o", "gpt-4o", True), ("gpt-4o", "gpt-4o-mini", False), ("gpt-4o", "GPT-4o", False),
        ("gpt-*", "gpt-4o", True), ("gpt-*", "gpt-", True), ("gpt-*", "gpt", False), ("gpt-*", "xgpt-4", False),
        ("*-mini", "gpt-4o-mini", True), ("*-mini", "-mini-x", False), ("*", "anything", True), ("*", "", True),
        ("**", "x", True), ("a*b*c", "aXbYc", True), ("a*b*c", "abc", True), ("a*b*c", "acb", False),
        ("aa*aa", "aaa", False), ("aa*aa", "aaaa", True), ("*a*a*", "a", False), ("*a*a*", "ba-a", True),
        ("a*ab*b", "aab", False), ("a*ab*b", "aabb", True),
        ("gpt-?", "gpt-4", False), ("gpt-[45]", "gpt-4", False), ("gpt-[45]", "gpt-[45]", True), ("a.c*", "abc", False),
        ("*", "a\nb", True), ("", "", True), ("", "x", False),
    ],
)  # fmt: skip
def test_matches(pattern: str, model: str, expected: bool) -> None:
    assert matches(pattern, model) is expected


def test_many_stars_do_not_explode() -> None:
    assert not matches("*a" * 50 + "*b", "a" * 100_000)


@pytest.mark.parametrize(
    ("models", "mapping", "model", "expected"),
    [
        (("gpt-4o",), {}, "gpt-4o", True), (("gpt-*",), {}, "gpt-4o", True), ((), {"fast": "gpt-4o"}, "fast", True),
        (("*",), {}, "gpt-4o", False), (("**",), {}, "gpt-4o", False), (("*", "gpt-4o"), {}, "gpt-4o", True),
        (("gpt-4o",), {}, "", False), ((), {"fast": "gpt-4o"}, "gpt-4o", False),
    ],
)  # fmt: skip
def test_a_bare_star_does_not_claim(
    models: tuple[str, ...], mapping: dict[str, str], model: str, expected: bool
) -> None:
    assert claims(channel(1, *models, model_mapping=mapping), model) is expected


def test_tiers_by_priority_group_and_model() -> None:
    index = ChannelIndex(
        [
            channel(1, "a", priority=1),
            channel(2, "a", "b", priority=9),
            channel(3, "*", priority=1),
            channel(4, "a", groups=frozenset({"vip"}), priority=9),
            channel(5, "a", priority=9),
            channel(6, "b*"),
            channel(7, model_mapping={"alias": "a"}),
            channel(8, "a", keys=()),
        ]
    )
    assert ids(index.tiers("default", "a", "openai_chat")) == [[2, 5], [1, 3]]
    assert ids(index.tiers("vip", "a", "openai_chat")) == [[4]]
    assert ids(index.tiers("default", "bb", "openai_chat")) == [[3], [6]]
    assert ids(index.tiers("default", "alias", "openai_chat")) == [[3], [7]]
    without_model = ids(index.tiers("default", "", "openai_chat"))
    assert without_model == [[3]], "a request without a model goes to channels that serve *"
    assert index.tiers("nobody", "a", "openai_chat") == ()
    assert index.tiers("default", "a", "openai_chat") is index.tiers("default", "a", "openai_chat")


def test_unknown_model_and_model_whose_channels_are_out_differ() -> None:
    index = ChannelIndex([channel(1, "a", keys=()), channel(2, "b")])
    assert index.tiers("default", "a", "openai_chat") == ()
    assert index.is_listed("default", "a")
    assert not index.is_listed("default", "c")
    assert not index.is_listed("vip", "a")


def test_a_channel_gets_requests_in_the_dialects_of_its_kind_only() -> None:
    index = ChannelIndex([channel(1, "a"), channel(2, "a", kind="nobody knows it")])
    assert ids(index.tiers("default", "a", "openai_chat")) == [[1]]
    assert ids(index.tiers("default", "a", "opaque")) == [[1]]
    assert index.tiers("default", "a", "a dialect that nobody speaks") == ()
    assert index.is_listed("default", "a", "openai_chat")
    assert index.is_listed("default", "a")
    assert not index.is_listed("default", "a", "a dialect that nobody speaks")


def test_names_from_clients_cannot_fill_the_memory() -> None:
    index = ChannelIndex([channel(1, "*", "known")])
    known = index.tiers("default", "known", "openai_chat")
    for number in range(10_000):
        assert ids(index.tiers("default", f"made-up-{number}", "openai_chat")) == [[1]]
    assert len(index._others) <= 1024
    assert index.tiers("default", "known", "openai_chat") is known


def test_order_keeps_tiers_apart_and_tries_each_channel_once() -> None:
    index = ChannelIndex([channel(number, "a", priority=number % 3) for number in range(1, 10)])
    ordered = order(index.tiers("default", "a", "openai_chat"), random.Random(1))
    assert sorted(item.id for item in ordered) == list(range(1, 10))
    assert [item.priority for item in ordered] == [2, 2, 2, 1, 1, 1, 0, 0, 0]


def test_weights_are_shares_of_first_places() -> None:
    tiers = ChannelIndex([channel(1, "a", weight=3), channel(2, "a", weight=1)]).tiers(
        "default", "a", "openai_chat"
    )
    chance = random.Random(7)
    first = Counter(order(tiers, chance)[0].id for _ in range(4000))
    assert 0.72 < first[1] / 4000 < 0.78


def test_second_places_are_weighted_too() -> None:
    tiers = ChannelIndex(
        [channel(1, "a", weight=1), channel(2, "a", weight=2), channel(3, "a", weight=1)]
    ).tiers("default", "a", "openai_chat")
    chance = random.Random(7)
    second = Counter(items[1].id for items in (order(tiers, chance) for _ in range(9000)) if items[0].id == 1)
    assert 0.61 < second[2] / second.total() < 0.72


def test_weight_zero_comes_last_in_its_tier_only() -> None:
    tiers = ChannelIndex(
        [
            channel(1, "a", weight=0, priority=5),
            channel(2, "a", priority=5),
            channel(3, "a", weight=0, priority=5),
            channel(4, "a", weight=100),
        ]
    ).tiers("default", "a", "openai_chat")
    chance = random.Random(3)
    orders = [[item.id for item in order(tiers, chance)] for _ in range(100)]
    assert {items[0] for items in orders} == {2}
    assert {items[3] for items in orders} == {4}
    assert {tuple(items[1:3]) for items in orders} == {(1, 3), (3, 1)}


@pytest.mark.parametrize("number", [0.0, 1.0 - 2**-53])
def test_the_extremes_of_chance_are_harmless(number: float) -> None:
    tiers = ChannelIndex([channel(1, "a"), channel(2, "a")]).tiers("default", "a", "openai_chat")
    assert len(order(tiers, Scripted(number, number))) == 2


def test_round_robin_begins_one_key_further_each_time() -> None:
    turns = channel(1, "a", keys=KEYS)
    orders = [[key.id for key in keys_in_order(turns, turn, Scripted())] for turn in range(4)]
    assert orders == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]


def test_random_keys_come_once_each_in_any_order() -> None:
    chance = channel(1, "a", keys=KEYS, key_mode=KeyMode.RANDOM)
    dice = random.Random(1)
    orders = {tuple(key.id for key in keys_in_order(chance, 0, dice)) for _ in range(200)}
    assert orders == set(itertools.permutations((1, 2, 3)))


def test_a_channel_without_keys_offers_none() -> None:
    assert keys_in_order(channel(9, "a", keys=()), 0, Scripted()) == ()


def test_model_sent() -> None:
    mapped = channel(1, "*", model_mapping={"fast": "gpt-4o-mini"})
    assert model_sent(mapped, "fast") == "gpt-4o-mini"
    assert model_sent(mapped, "other") == "other"


def test_listed_models() -> None:
    channels = [
        channel(1, "gpt-4o", "claude-*", model_mapping={"fast": "x"}),
        channel(2, "secret", groups=frozenset({"vip"})),
        channel(3, "keyless", keys=()),
    ]
    priced = {"claude-4": 1, "gemini": 1}
    assert listed_models(channels, "default", (), priced) == ["claude-4", "fast", "gpt-4o"]
    assert listed_models(ChannelIndex(channels), "vip", (), priced) == ["secret"]
    assert listed_models(channels, "default", ("gpt-*", "claude-4"), priced) == ["claude-4", "gpt-4o"]
    assert listed_models([channel(4, "*")], "default", (), priced) == ["claude-4", "gemini"]


@pytest.mark.parametrize(
    ("allowed", "model", "expected"),
    [
        ((), "x", True),
        (("a", "b-*"), "a", True),
        (("a", "b-*"), "b-1", True),
        (("a", "b-*"), "c", False),
        (("*",), "c", True),
    ],
)
def test_is_model_allowed(allowed: tuple[str, ...], model: str, expected: bool) -> None:
    assert is_model_allowed(allowed, model) is expected


def test_close_names() -> None:
    known = ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4", "text-embedding-3"]
    assert close_names("gpt4o", known)[0] == "gpt-4o"
    assert close_names("Claude-Sonnet-4", known) == ["claude-sonnet-4"]
    assert close_names("zzz", known) == []
    assert close_names("gpt-4o-min", known, n=1) == ["gpt-4o-mini"]
    assert close_names("gpt-4o" * 100_000, known) == []


def test_close_names_is_bounded() -> None:
    """An unknown model is a cheap refusal: hostile names must not stop the loop (190 ms without a shortlist)."""
    candidates = [f"{'m' * 60}{number}" for number in range(100_000)]
    start = time.perf_counter()
    assert len(close_names("m" * 64, candidates)) <= 3
    assert time.perf_counter() - start < 0.1
