"""The values of a walk over keys and channels: candidates, what is tried next, and what the walk looks at.

What decides between them is `relay.core.failover`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from relay.core.types import Channel, RelayFlags, UpstreamKey


class Kind(StrEnum):
    FIRST = "first choice"
    SAME_KEY = "same key again"
    AS_WHOLE = "same channel without streaming"
    NEXT_KEY = "next key"
    NEXT_CHANNEL = "next channel"
    FALLBACK = "fallback model"
    BACKUP = "backup"
    """Another channel, beside an attempt that is late."""
    LAST_RESORT = "last resort: the first channel without streaming"


class Candidate(msgspec.Struct, frozen=True):
    """A channel, and the model to ask it for: the client's, or one that stands in for it."""

    channel: Channel
    model: str


class Traits(msgspec.Struct, frozen=True):
    """What of a request decides its attempts. draws: makes pictures, so image failover governs it.

    is_hedged: a clear gateway error of the first channel is answered by another one at once. degrades: when
    all else has failed, the first channel is asked once without streaming.
    """

    model: str
    is_replayable: bool
    draws: bool
    is_hedged: bool = False
    degrades: bool = False


class Step(msgspec.Struct, frozen=True):
    """One possible next attempt. place: of the candidate in the walk. delay_s: to wait before it begins."""

    kind: Kind
    place: int
    candidate: Candidate
    key: UpstreamKey
    delay_s: float = 0.0
    possible_duplicate_charge: bool = False


class Surroundings(Protocol):
    """What the walk looks at, anew before each further attempt."""

    def flags(self) -> RelayFlags: ...

    def elapsed_s(self) -> float:
        """Since the first attempt."""
        ...

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool: ...

    def is_auto_disabled(self, key: UpstreamKey) -> bool:
        """Whether failures alone took the key or its channel out."""
        ...

    def is_cooling(self, channel_id: int, key_id: int) -> bool: ...

    def keys_of(self, channel: Channel) -> Sequence[UpstreamKey]:
        """A channel's keys in the order of its mode."""
        ...

    def random(self) -> float:
        """0 ≤ x < 1."""
        ...


def ordered(
    traits: Traits, candidates: Sequence[Candidate], first: tuple[Channel, UpstreamKey] | None
) -> Sequence[Candidate]:
    """The channel of `first` before all others. Fallback models stand in for replayable requests only."""
    if traits.draws or not traits.is_replayable:
        candidates = [candidate for candidate in candidates if candidate.model == traits.model]
    if first is None or (candidates and candidates[0].channel is first[0]):
        return candidates
    channel = first[0]
    chosen = next((one for one in candidates if one.channel is channel), Candidate(channel, traits.model))
    return [chosen, *(one for one in candidates if one is not chosen)]


def beginning_with(first: UpstreamKey, keys: tuple[UpstreamKey, ...]) -> tuple[UpstreamKey, ...]:
    """The same round, begun at this key."""
    if first not in keys:
        return (first, *keys)
    at = keys.index(first)
    return keys[at:] + keys[:at] if at else keys
