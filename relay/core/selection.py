"""Which channels serve a model, and in which order they are tried.

Chance and turn counters are handed in. Must not import anything that knows health, cooldowns or leases:
candidates that are out are dropped by the caller.
"""

import difflib
import functools
import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Protocol

from relay.core.types import Channel, KeyMode, UpstreamKey
from relay.core.upstream_kinds import speaks

Tiers = tuple[tuple[Channel, ...], ...]
"""Channels by priority, highest first."""

_OTHER_NAMES_KEPT = 1024
_MAX_COMPARED_CHARACTERS = 64
_MAX_COMPARED_NAMES = 500
_SHORTLIST = 8


class Random(Protocol):
    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def matches(pattern: str, model: str) -> bool:
    """Whether a name or pattern covers a model. `*` stands for any text, all else for itself."""
    if "*" not in pattern:
        return pattern == model
    head, middles, tail = _parts(pattern)
    if len(model) < len(head) + len(tail) or not (model.startswith(head) and model.endswith(tail)):
        return False
    at, end = len(head), len(model) - len(tail)
    for middle in middles:
        at = model.find(middle, at, end)
        if at < 0:
            return False
        at += len(middle)
    return True


def is_model_allowed(allowed_models: Sequence[str], model: str) -> bool:
    """Whether an API key may use a model; an empty list allows all."""
    return not allowed_models or any(matches(pattern, model) for pattern in allowed_models)


def claims(channel: Channel, model: str) -> bool:
    """Whether a channel says that it has this very model; a bare `*` only offers to try."""
    if not model:
        return False
    return model in channel.model_mapping or any(
        matches(pattern, model) for pattern in channel.models if not _is_catch_all(pattern)
    )


def model_sent(channel: Channel, model: str) -> str:
    """The name the upstream knows the model by."""
    return channel.model_mapping.get(model, model)


class ChannelIndex:
    """The channels of one configuration, found by group and model. Never changes once built.

    Model names come from clients, so only names that the configuration itself holds are remembered
    without limit; the others share a small table that starts afresh when it is full.
    """

    __slots__ = ("_channels", "_known", "_named", "_others")

    def __init__(self, channels: Iterable[Channel]) -> None:
        self._channels = tuple(sorted(channels, key=lambda channel: (-channel.priority, channel.id)))
        self._known = frozenset(name for channel in self._channels for name in _names(channel))
        self._named: dict[tuple[str, str, str], Tiers] = {}
        self._others: dict[tuple[str, str, str], Tiers] = {}

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels)

    def tiers(self, group: str, model: str, dialect: str) -> Tiers:
        """The channels of a group that serve a model, have a key and are asked in this dialect.

        model: "" = none was named. dialect: its name.
        """
        named = model in self._known
        cache = self._named if named else self._others
        found = cache.get((group, model, dialect))
        if found is None:
            found = self._find(group, model, dialect)
            if not named and len(cache) >= _OTHER_NAMES_KEPT:
                cache.clear()
            # A group comes from configuration, but one that no channel has need not be kept.
            if found:
                cache[group, model, dialect] = found
        return found

    def is_listed(self, group: str, model: str, dialect: str | None = None) -> bool:
        """Whether any channel of the group serves the model, with or without a key that is in use.

        dialect: only channels that are asked in this one.
        """
        return any(
            group in channel.groups
            and _serves(channel, model)
            and (dialect is None or speaks(channel.kind, dialect))
            for channel in self._channels
        )

    def _find(self, group: str, model: str, dialect: str) -> Tiers:
        serving = (
            channel
            for channel in self._channels
            if channel.keys
            and group in channel.groups
            and speaks(channel.kind, dialect)
            and _serves(channel, model)
        )
        return tuple(tuple(tier) for _, tier in groupby(serving, key=lambda channel: channel.priority))


def order(tiers: Tiers, random: Random) -> list[Channel]:
    """All channels in the order of attempts: tier by tier, weighted chance within a tier.

    A channel of weight 0 comes after all others of its tier.
    """
    ordered: list[Channel] = []
    for tier in tiers:
        if len(tier) == 1:
            ordered.append(tier[0])
        else:
            ordered.extend(sorted(tier, key=functools.partial(_lot, random)))
    return ordered


def keys_in_order(channel: Channel, turn: int, random: Random) -> tuple[UpstreamKey, ...]:
    """The channel's keys in the order in which a request tries them, each once.

    turn: how many requests came to the channel before; only for round robin, which begins one key further
    each time.
    """
    keys = channel.keys
    if len(keys) < 2:
        return keys
    if channel.key_mode is KeyMode.ROUND_ROBIN:
        at = turn % len(keys)
        return keys[at:] + keys[:at]
    return tuple(sorted(keys, key=lambda _: random.random()))


def listed_models(
    channels: Iterable[Channel], group: str, allowed_models: Sequence[str], priced: Collection[str]
) -> list[str]:
    """The names a caller may be told, sorted.

    Named models, mapping keys, and priced names that some pattern serves; patterns themselves are not
    names. channels: also a `ChannelIndex`.
    """
    names: set[str] = set()
    patterns: set[str] = set()
    for channel in channels:
        if group in channel.groups and channel.keys:
            names.update(_names(channel))
            patterns.update(pattern for pattern in channel.models if "*" in pattern)
    names.update(name for name in priced if any(matches(pattern, name) for pattern in patterns))
    return sorted(name for name in names if is_model_allowed(allowed_models, name))


def close_names(model: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """Names that a caller may have meant, best first. Bounded in time whatever the input."""
    if len(model) > _MAX_COMPARED_CHARACTERS:
        return []
    asked = model.lower()
    pairs = _pairs(asked)
    by_folded = {
        name.lower(): name
        for name in islice(candidates, _MAX_COMPARED_NAMES)
        if len(name) <= _MAX_COMPARED_CHARACTERS
    }
    # difflib takes up to 0.4 ms a name: only names that share most pairs of letters are put to it.
    shortlist = heapq.nlargest(_SHORTLIST, by_folded, key=lambda name: len(pairs & _pairs(name)))
    return [by_folded[name] for name in difflib.get_close_matches(asked, shortlist, n=n)]


@functools.lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[str, tuple[str, ...], str]:
    """A pattern cut at its stars. No regular expression: many stars would make one explode."""
    head, *middles, tail = pattern.split("*")
    return head, tuple(middle for middle in middles if middle), tail


def _pairs(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(len(name) - 1)}


def _is_catch_all(pattern: str) -> bool:
    return bool(pattern) and not pattern.strip("*")


def _serves(channel: Channel, model: str) -> bool:
    return claims(channel, model) or any(_is_catch_all(pattern) for pattern in channel.models)


def _names(channel: Channel) -> Iterator[str]:
    yield from (name for name in channel.models if "*" not in name)
    yield from channel.model_mapping


def _lot(random: Random, channel: Channel) -> tuple[bool, float]:
    """Weighted drawing without replacement: exponential lots, the smallest goes first.

    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    """
    lot = -math.log(1.0 - random.random())
    return (False, lot / channel.weight) if channel.weight > 0 else (True, lot)
