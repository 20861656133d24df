"""The order of a request's attempts as a state machine: no I/O, no clock, no chance of its own.

`Walk.options` tells what may follow a failure, nearest first: the same key after a pause, the next key of
the channel, the next channel, a fallback model. Whoever runs attempts picks one (leases may rule some out)
and tells `Walk.take`. Which failure allows how much is `relay.core.retry`, for pictures
`relay.core.image_failover`.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from relay.core.errors import AttemptFailed
from relay.core.image_failover import may_have_drawn, reach_of_image, tier_of
from relay.core.retry import KEY_IS_BAD, Reach, reach_of, status_of
from relay.core.selection import claims
from relay.core.types import Channel, RelayFlags, UpstreamKey

MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 2.0
FIRST_PAUSE_S = 1.0
"""The longest pause before the first repetition with a key; it doubles up to `MAX_PAUSE_S`."""

TOOL_CALL_INVALID = "tool_call_invalid"
"""Error class of an aggregated stream whose tool call is broken: asked for whole, it may be sound."""


class Kind(StrEnum):
    FIRST = "first choice"
    SAME_KEY = "same key again"
    AS_WHOLE = "same channel without streaming"
    NEXT_KEY = "next key"
    NEXT_CHANNEL = "next channel"
    FALLBACK = "fallback model"


class Candidate(msgspec.Struct, frozen=True):
    """A channel, and the model to ask it for: the client's, or one that stands in for it."""

    channel: Channel
    model: str


class Traits(msgspec.Struct, frozen=True):
    """What of a request decides its attempts. draws: makes pictures, so image failover governs it."""

    model: str
    is_replayable: bool
    draws: bool


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

    def is_cooling(self, channel_id: int, key_id: int) -> bool: ...

    def keys_of(self, channel: Channel) -> Sequence[UpstreamKey]:
        """A channel's keys in the order of its mode."""
        ...

    def random(self) -> float:
        """0 ≤ x < 1."""
        ...


class Walk:
    """The attempts of one request. `ended_by`: words for the record once `options` offered nothing."""

    __slots__ = (
        "_asked_whole", "_channels", "_dead", "_keys", "_place", "_repeats", "_rest",
        "_traits", "_world", "candidates", "current", "ended_by",
    )  # fmt: skip

    def __init__(
        self,
        traits: Traits,
        candidates: Sequence[Candidate],
        world: Surroundings,
        first: tuple[Channel, UpstreamKey] | None = None,
    ) -> None:
        """candidates: in order, those of fallback models last. first: begins the walk, e.g. by a lease."""
        self.candidates = _ordered(traits, candidates, first)
        self.current: Step | None = None
        self.ended_by = ""
        self._traits = traits
        self._world = world
        self._place = -1
        self._channels = 0  # in which attempts for the current candidate's model were begun
        self._repeats = 0
        self._asked_whole = False
        self._dead: set[int] = set()
        self._rest: tuple[UpstreamKey, ...] = ()
        self._keys: dict[int, tuple[UpstreamKey, ...]] = {}
        if first is not None:
            self._keys[0] = self._settled(first[0], _beginning_with(first[1], first[0].keys))

    def options(self, failure: AttemptFailed | None) -> Iterator[Step]:
        """What may be tried next, nearest first. failure: of the current attempt; None before the first.

        Changes nothing but `ended_by`, so it may be asked again after a pause.
        """
        self.ended_by = ""
        if failure is None:
            yield from self._further_channels(self._world.flags(), is_risky=False)
            self.ended_by = "every candidate is out or cooling down"
            return
        assert self.current is not None  # noqa: S101  a failure is that of an attempt that was taken
        flags = self._world.flags()
        reach = self._reach(failure, flags)
        if reach is Reach.NOWHERE or self._is_over_budget(flags):
            self.ended_by = self.ended_by or "the retry budget is used up"
            return
        is_risky = self._traits.draws and may_have_drawn(failure)
        yield from self._same_channel(failure, reach, flags, is_risky=is_risky)
        yield from self._further_channels(flags, is_risky=is_risky)
        self.ended_by = self.ended_by or "nothing left to try"

    def take(self, step: Step) -> None:
        """The attempt of this step begins; what was offered before it is passed over."""
        if step.place != self._place:
            is_same_model = self.current is not None and self.current.candidate.model == step.candidate.model
            self._channels = self._channels + 1 if is_same_model else 1
            self._place = step.place
            self._rest = self._keys_at(step.place)
            self._asked_whole = False
        if step.kind is Kind.AS_WHOLE:
            self._asked_whole = True
        elif step.kind is Kind.SAME_KEY:
            self._repeats += 1
        else:
            self._repeats = 0
            self._rest = self._rest[self._rest.index(step.key) + 1 :]
        self.current = step

    def _reach(self, failure: AttemptFailed, flags: RelayFlags) -> Reach:
        assert self.current is not None  # noqa: S101  see `options`
        if self._traits.draws:
            reach = reach_of_image(failure, tier_of(flags))
            self.ended_by = (
                "" if reach is not Reach.NOWHERE else "image failover does not replay this outcome"
            )
            return reach
        if not self._traits.is_replayable:
            self.ended_by = "not replayable"
            return Reach.NOWHERE
        if status_of(failure) in KEY_IS_BAD:
            self._dead.add(self.current.key.id)
        candidate = self.current.candidate
        reach = reach_of(failure, claimed=claims(candidate.channel, candidate.model))
        self.ended_by = "" if reach is not Reach.NOWHERE else "not retried for this failure"
        return reach

    def _is_over_budget(self, flags: RelayFlags, delay_s: float = 0.0) -> bool:
        return not self._traits.draws and self._world.elapsed_s() + delay_s >= flags.retry_budget_s

    def _same_channel(
        self, failure: AttemptFailed, reach: Reach, flags: RelayFlags, *, is_risky: bool
    ) -> Iterator[Step]:
        current = self.current
        assert current is not None  # noqa: S101  see `options`
        place, candidate = current.place, current.candidate
        if self._may_ask_whole(failure) and self._world.is_usable(candidate.channel, current.key):
            yield Step(Kind.AS_WHOLE, place, candidate, current.key)
        if reach is Reach.SAME_KEY and self._repeats < flags.channel_retry_times:
            pause_s = self._pause_s()
            # A picture's own failures do not take the key from its budget, so nothing else is looked at.
            if self._traits.draws or (
                not self._is_over_budget(flags, pause_s)
                and self._world.is_usable(candidate.channel, current.key)
            ):
                yield Step(Kind.SAME_KEY, place, candidate, current.key, pause_s, is_risky)
        if reach is not Reach.NEXT_CHANNEL:
            for key in self._rest:
                if self._is_open(candidate.channel, key):
                    yield Step(Kind.NEXT_KEY, place, candidate, key, 0.0, is_risky)

    def _further_channels(self, flags: RelayFlags, *, is_risky: bool) -> Iterator[Step]:
        current, channels = self.current, self._channels
        model = current.candidate.model if current is not None else self._traits.model
        for place in range(self._place + 1, len(self.candidates)):
            candidate = self.candidates[place]
            if candidate.model != model:
                model, channels = candidate.model, 0
            if channels > flags.retry_times and not self._traits.draws:
                self.ended_by = "RETRY_TIMES is used up"
                continue
            kind = self._kind_of(candidate)
            for key in self._keys_at(place):
                if self._is_open(candidate.channel, key):
                    yield Step(kind, place, candidate, key, 0.0, is_risky)

    def _kind_of(self, candidate: Candidate) -> Kind:
        if candidate.model != self._traits.model:
            return Kind.FALLBACK
        return Kind.FIRST if self.current is None else Kind.NEXT_CHANNEL

    def _keys_at(self, place: int) -> tuple[UpstreamKey, ...]:
        keys = self._keys.get(place)
        if keys is None:
            channel = self.candidates[place].channel
            keys = self._keys[place] = self._settled(channel, tuple(self._world.keys_of(channel)))
        return keys

    def _settled(self, channel: Channel, keys: tuple[UpstreamKey, ...]) -> tuple[UpstreamKey, ...]:
        """The keys of a candidate that the walk looks at for the first time.

        For pictures that settles which of them are cooling: what this request does to them later must not
        take them from it.
        """
        if not self._traits.draws:
            return keys
        return tuple(key for key in keys if not self._world.is_cooling(channel.id, key.id))

    def _is_open(self, channel: Channel, key: UpstreamKey) -> bool:
        if not self._world.is_usable(channel, key):
            return False
        if self._traits.draws:
            return True
        return key.id not in self._dead and not self._world.is_cooling(channel.id, key.id)

    def _may_ask_whole(self, failure: AttemptFailed) -> bool:
        is_broken_call = failure.error_class == TOOL_CALL_INVALID
        return is_broken_call and not (self._asked_whole or self._traits.draws)

    def _pause_s(self) -> float:
        longest_s: float = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**self._repeats)
        return MIN_PAUSE_S + self._world.random() * (longest_s - MIN_PAUSE_S)


def _ordered(
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


def _beginning_with(first: UpstreamKey, keys: tuple[UpstreamKey, ...]) -> tuple[UpstreamKey, ...]:
    """The same round, begun at this key."""
    if first not in keys:
        return (first, *keys)
    at = keys.index(first)
    return keys[at:] + keys[:at] if at else keys
