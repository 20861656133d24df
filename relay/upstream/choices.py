"""Which channel and key is tried next: the walk of `relay.core.failover`, asked with what holds right now."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from relay.core.errors import AttemptFailed
from relay.core.failover import Candidate, Kind, Step, Traits, Walk
from relay.core.hedging import hedge_after_s
from relay.core.request import RelayRequest
from relay.core.types import NO_CEILINGS, Ceilings, Channel, UpstreamKey
from relay.upstream.modes import Mode, may_race, mode_of

if TYPE_CHECKING:
    from relay.upstream.engine import Engine

ADMISSION_LEASE = 0
"""Number under which admission took the lease of the first attempt; attempts count from 1."""


class Choice(msgspec.Struct, frozen=True):
    """lease: the number it was taken under; None where neither channel nor key has a ceiling."""

    step: Step
    lease: int | None = None

    @property
    def channel(self) -> Channel:
        return self.step.candidate.channel

    @property
    def key(self) -> UpstreamKey:
        return self.step.key

    @property
    def model(self) -> str:
        """What is asked for, in the tenant's words; a fallback model if it stands in."""
        return self.step.candidate.model

    @property
    def decision(self) -> str:
        """Why this one, for the record."""
        kind, channel = self.step.kind, self.channel
        match kind:
            case Kind.SAME_KEY:
                return f"{kind} after {self.step.delay_s:.1f} s"
            case Kind.FALLBACK:
                kind_words = f"{kind} {self.model}"
            case Kind.AS_WHOLE | Kind.NEXT_KEY | Kind.LAST_RESORT:
                return kind.value
            case _:
                kind_words = kind.value
        return f"{kind_words}: priority {channel.priority}, weight {channel.weight}"


class Choices:
    """One request's walk. what_next: words for the attempt that `next` was asked after. begins_at: the
    channel of the first attempt, unless it goes out before that begins; None when there are no candidates.
    """

    __slots__ = ("_engine", "_first", "_is_woken", "_request", "_waker", "_walk", "begins_at", "what_next")

    def __init__(
        self,
        engine: "Engine",
        request: RelayRequest,
        candidates: Sequence[Candidate],
        first: tuple[Channel, UpstreamKey] | None,
    ) -> None:
        self.what_next = ""
        self._engine = engine
        self._request = request
        self._first = first
        self._is_woken = False
        self._waker: asyncio.Future[None] | None = None
        self.begins_at = first[0] if first is not None else candidates[0].channel if candidates else None
        self._walk = Walk(traits_of(request, self.begins_at), candidates, _World(engine), first)

    async def next(self, failure: AttemptFailed | None, number: int) -> Choice | None:
        """The attempt that begins now, its lease taken; None when there is no further one.

        Waits where the same key is to be tried again; `wake` cuts that short. number: of the attempt.
        """
        step = next(self._walk.options(failure), None)
        if failure is None:
            self._drop_admission_lease(step)
        if step is not None and step.delay_s > 0:
            if not await self._pause(step.delay_s):
                return None
            step = next(self._walk.options(failure), None)  # flags and health may have changed meanwhile
        choice = None if step is None else await self._with_room(failure, step, number)
        self.what_next = self._walk.ended_by if choice is None else choice.step.kind.value
        if choice is not None:
            self._walk.take(choice.step)
        return choice

    async def backup(self, number: int) -> Choice | None:
        """An attempt beside the current one, on another channel, its lease taken; None if there is none."""
        steps = (step for step in self._walk.backups() if may_race(self._request, step.candidate.channel))
        choice = await self._leased(steps, number)
        if choice is not None:
            self._walk.take_backup(choice.step)
        return choice

    def raced(self, decisive: Choice, other: Choice, failure: AttemptFailed | None) -> None:
        """See `Walk.raced`."""
        self._walk.raced(decisive.step, other.step, failure)

    def ends_with(self, choice: Choice, failure: AttemptFailed) -> bool:
        return self._walk.ends_with(choice.step, failure)

    def wake(self) -> None:
        """The request was stopped: whoever waits for its next attempt shall not."""
        self._is_woken = True
        self._go_on()

    def give_back(self, choice: Choice) -> None:
        """The attempt is over, or is not made after all."""
        if choice.lease is not None:
            self._engine.leases.give_back(self._request.id, choice.lease)

    async def _with_room(self, failure: AttemptFailed | None, step: Step, number: int) -> Choice | None:
        if failure is None and self._is_admitted(step):
            return Choice(step, ADMISSION_LEASE if is_limited(step.candidate.channel, step.key) else None)
        if not is_limited(step.candidate.channel, step.key):
            return Choice(step)
        choice = await self._leased(self._walk.options(failure), number)
        if choice is None:
            self._walk.ended_by = "no candidate has room"
        elif step.delay_s == 0 < choice.step.delay_s and not await self._pause(choice.step.delay_s):
            self.give_back(choice)
            return None
        return choice

    async def _leased(self, options: Iterable[Step], number: int) -> Choice | None:
        """The first with room, leased; None if none has, or there is none."""
        steps = _up_to_unlimited(options)
        pairs = [(one.candidate.channel, one.key) for one in steps]
        if not pairs:
            return None
        if not is_limited(*pairs[0]):
            return Choice(steps[0])
        taken = await self._engine.leases.take(self._request.id, number, pairs)
        if taken is None:
            return None
        return Choice(steps[taken], number if is_limited(*pairs[taken]) else None)

    def _is_admitted(self, step: Step) -> bool:
        first = self._first
        return first is not None and step.candidate.channel is first[0] and step.key is first[1]

    def _drop_admission_lease(self, step: Step | None) -> None:
        """Admission leased a place that the first attempt does not take: it was disabled meanwhile."""
        if self._first is not None and is_limited(*self._first) and not (step and self._is_admitted(step)):
            self._engine.leases.give_back(self._request.id, ADMISSION_LEASE)

    def _go_on(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _pause(self, seconds: float) -> bool:
        """False when the request was stopped before or meanwhile."""
        if not self._is_woken:
            self._waker = asyncio.get_running_loop().create_future()
            clock = self._engine.clock
            timer = clock.call_at(clock.now() + seconds, self._go_on)
            try:
                await self._waker
            finally:
                timer.cancel()
                self._waker = None
        if self._is_woken:
            self.what_next = "stopped"
        return not self._is_woken


class _World:
    """`relay.core.failover.Surroundings`, as the engine's ports tell it."""

    __slots__ = ("_began", "_engine", "flags", "is_auto_disabled", "is_cooling", "is_usable", "random")

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._began = engine.clock.now()
        self.flags = engine.control.flags
        self.is_usable = engine.control.is_usable
        self.is_auto_disabled = engine.control.is_auto_disabled
        self.is_cooling = engine.health.is_cooling
        self.random = engine.chance.random

    def elapsed_s(self) -> float:
        return self._engine.clock.now() - self._began

    def keys_of(self, channel: Channel) -> Sequence[UpstreamKey]:
        return self._engine.keys_of(channel)


def traits_of(request: RelayRequest, begins_at: Channel | None) -> Traits:
    """begins_at: the channel of the first attempt."""
    route = request.route
    if route is None:
        is_drawn = request.is_image and not request.is_replayable
        return Traits(request.ask.model, request.is_replayable, draws=is_drawn)
    draws = (request.is_image or route.is_artefact) and not request.is_replayable
    streams = begins_at is not None and mode_of(request, begins_at) is Mode.STREAM
    return Traits(
        request.ask.model,
        request.is_replayable,
        draws,
        is_hedged=hedge_after_s(request) > 0,
        degrades=route.degrade_to_non_stream and streams and not draws,
    )


def _up_to_unlimited(options: Iterable[Step]) -> list[Step]:
    """Up to the first that has room in any case."""
    steps: list[Step] = []
    for step in options:
        steps.append(step)
        if not is_limited(step.candidate.channel, step.key):
            break
    return steps


def is_limited(channel: Channel, key: UpstreamKey) -> bool:
    """Whether an attempt with the key needs a place."""
    return _has_any(channel.ceilings) or _has_any(key.ceilings)


def _has_any(ceilings: Ceilings) -> bool:
    return ceilings is not NO_CEILINGS and ceilings != NO_CEILINGS
