"""The order of a request's attempts as a state machine: no I/O, no clock, no chance of its own.

`Walk.options` tells what may follow a failure, nearest first: the same key after a pause, the next key of
the channel, the next channel, a fallback model. Whoever runs attempts picks one (leases may rule some out)
and tells `Walk.take`. Which failure allows how much is `relay.core.retry`, for pictures
`relay.core.image_failover`.
"""

from collections.abc import Iterator, Sequence

import msgspec

from relay.core.dialects.base import TOOL_CALL_INVALID
from relay.core.errors import AttemptFailed
from relay.core.hedging import is_gateway_error
from relay.core.image_failover import may_have_drawn, reach_of_image, tier_of
from relay.core.retry import KEY_IS_BAD, Reach, reach_of, status_of
from relay.core.selection import claims
from relay.core.steps import Candidate, Kind, Step, Surroundings, Traits, beginning_with, ordered
from relay.core.types import Channel, RelayFlags, UpstreamKey

__all__ = ["Candidate", "Kind", "Step", "Surroundings", "Traits", "Walk"]

MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 2.0
FIRST_PAUSE_S = 1.0
"""The longest pause before the first repetition with a key; it doubles up to `MAX_PAUSE_S`."""


class Walk:
    """The attempts of one request. `ended_by`: words for the record once `options` offered nothing."""

    __slots__ = (
        "_ahead", "_asked_whole", "_channels", "_dead", "_first", "_keys", "_place", "_repeats", "_rest",
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
        self.candidates = ordered(traits, candidates, first)
        self.current: Step | None = None
        self.ended_by = ""
        self._traits = traits
        self._world = world
        self._place = -1
        self._channels = 0  # in which attempts for the current candidate's model were begun
        self._repeats = 0
        self._asked_whole = False
        self._first: Step | None = None
        self._ahead: set[int] = set()  # places at which backups were tried
        self._dead: set[int] = set()
        self._rest: tuple[UpstreamKey, ...] = ()
        self._keys: dict[int, tuple[UpstreamKey, ...]] = {}
        if first is not None:
            self._keys[0] = self._settled(first[0], beginning_with(first[1], first[0].keys))

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
        if self._traits.is_hedged and self._channels == 1 and is_gateway_error(failure):
            yield from self._other_channels(flags)
        yield from self._same_channel(failure, reach, flags, is_risky=is_risky)
        yield from self._further_channels(flags, is_risky=is_risky)
        yield from self._last_resort()
        self.ended_by = self.ended_by or "nothing left to try"

    def backups(self) -> Iterator[Step]:
        """What may run beside the current attempt: other channels, for the same model."""
        flags = self._world.flags()
        if not self._is_over_budget(flags):
            for step in self._other_channels(flags):
                yield msgspec.structs.replace(step, kind=Kind.BACKUP)

    def take_backup(self, step: Step) -> None:
        """It begins, and counts as a further channel; the current attempt stays the current one."""
        self._channels += 1
        self._ahead.add(step.place)

    def raced(self, decisive: Step, other: Step, failure: AttemptFailed | None) -> None:
        """Two attempts are over, and the walk goes on from the decisive one.

        failure: of the other one; None if it was stopped, so that its channel may still be tried.
        """
        if failure is not None and status_of(failure) in KEY_IS_BAD:
            self._dead.add(other.key.id)
        if failure is None:
            self._ahead.discard(other.place)
        if decisive is not self.current:
            self._stand_at(decisive)
            self._go_behind(decisive.key)
            self.current = decisive

    def take(self, step: Step) -> None:
        """The attempt of this step begins; what was offered before it is passed over."""
        self._first = self._first or step
        if step.kind is Kind.LAST_RESORT:
            self.current = step
            return
        if step.place != self._place:
            is_same_model = self.current is not None and self.current.candidate.model == step.candidate.model
            self._channels = self._channels + 1 if is_same_model else 1
            self._stand_at(step)
        if step.kind is Kind.AS_WHOLE:
            self._asked_whole = True
        elif step.kind is Kind.SAME_KEY:
            self._repeats += 1
        else:
            self._go_behind(step.key)
        self.current = step

    def ends_with(self, step: Step, failure: AttemptFailed) -> bool:
        """Whether this failure of the step's attempt is one behind which nothing is tried."""
        claimed = claims(step.candidate.channel, step.candidate.model)
        return reach_of(failure, claimed=claimed) is Reach.NOWHERE

    def _stand_at(self, step: Step) -> None:
        self._place = step.place
        self._rest = self._keys_at(step.place)
        self._asked_whole = False

    def _go_behind(self, key: UpstreamKey) -> None:
        self._repeats = 0
        self._rest = self._rest[self._rest.index(key) + 1 :]

    def _reach(self, failure: AttemptFailed, flags: RelayFlags) -> Reach:
        assert self.current is not None  # noqa: S101  see `options`
        if self.current.kind is Kind.LAST_RESORT:
            self.ended_by = "the last resort failed"
            return Reach.NOWHERE
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
            if place in self._ahead:
                continue
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

    def _other_channels(self, flags: RelayFlags) -> Iterator[Step]:
        """For the model that is being tried."""
        assert self.current is not None  # noqa: S101  callers have begun
        model = self.current.candidate.model
        for step in self._further_channels(flags, is_risky=False):
            if step.candidate.model != model:
                return
            yield step

    def _last_resort(self) -> Iterator[Step]:
        first = self._first
        if not self._traits.degrades or first is None:
            return
        channel = first.candidate.channel
        for key in dict.fromkeys((first.key, *self._keys_at(first.place))):
            if self._is_open(channel, key):
                yield Step(Kind.LAST_RESORT, first.place, first.candidate, key)

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
        is_usable = self._world.is_usable(channel, key)
        if self._traits.draws:  # its own failures must not take a key from its budget
            return is_usable or self._world.is_auto_disabled(key)
        return is_usable and key.id not in self._dead and not self._world.is_cooling(channel.id, key.id)

    def _may_ask_whole(self, failure: AttemptFailed) -> bool:
        """A stream with a broken tool call, of which nobody saw anything: the whole answer may be sound."""
        is_broken_call = failure.error_class == TOOL_CALL_INVALID
        return is_broken_call and not (self._asked_whole or self._traits.draws)

    def _pause_s(self) -> float:
        longest_s: float = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**self._repeats)
        return MIN_PAUSE_S + self._world.random() * (longest_s - MIN_PAUSE_S)
