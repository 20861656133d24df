"""The attempts of one relay request, until one answers or nothing is left to try.

One after another, but where a model route hedges: there a backup may run beside an attempt that is late.
"""

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed, Refusal
from relay.core.failover import Candidate
from relay.core.hedging import hedge_after_s
from relay.core.request import RelayRequest
from relay.core.retry import final_refusal
from relay.core.types import Channel, UpstreamKey
from relay.upstream.answer import Answer
from relay.upstream.attempt import Attempt
from relay.upstream.choices import Choice, Choices
from relay.upstream.modes import may_race
from relay.upstream.one_try import Try
from relay.upstream.race import Race
from relay.upstream.record import Tried

if TYPE_CHECKING:
    from relay.upstream.engine import Engine


class Series:
    """tried: the attempts that are over, the one that decides last. live: those that are not, the leading
    one first. begun: how many attempts there were. stopped_by: who ended them.
    """

    __slots__ = (
        "_answer", "_hedge_after_s", "begun", "choices", "engine", "live", "request", "stopped_by",
        "tried",
    )  # fmt: skip

    def __init__(
        self,
        engine: "Engine",
        request: RelayRequest,
        answer: Answer,
        candidates: Sequence[Candidate],
        first: tuple[Channel, UpstreamKey] | None,
    ) -> None:
        self.tried: list[Tried] = []
        self.live: list[Try] = []
        self.begun = 0
        self.stopped_by: EndReason | None = None
        self.engine = engine
        self.request = request
        self.choices = Choices(engine, request, candidates, first)
        self._answer = answer
        self._hedge_after_s = hedge_after_s(request)
        """0 = no backup, or none any more."""

    @property
    def leading(self) -> Try | None:
        return self.live[0] if self.live else None

    @property
    def attempt(self) -> Attempt | None:
        """The one that leads, else the last one."""
        if self.live:
            return self.live[0].attempt
        return self.tried[-1].attempt if self.tried else None

    async def run(self) -> tuple[EndReason, Refusal | None]:
        """How the request ended, and what its client is told instead of an answer."""
        failure: AttemptFailed | None = None
        while choice := await self._next_choice(failure):
            last = await self._run(choice)
            failure = last.failure
            if failure is None:
                return last.end_reason, None
            if last.attempt.is_committed:
                failure.message = failure.message or "The upstream's answer broke off."
                return failure.reason, self._refusal([failure])
        if self.stopped_by is not None:
            return self.stopped_by, None
        failures = [one.failure for one in self.tried if one.failure is not None]
        reason = failures[-1].reason if failures else EndReason.GATEWAY_ERROR
        return reason, self._refusal(failures)

    def stop(self, reason: EndReason) -> None:
        """Ends what runs; nothing follows. The first reason wins."""
        if self.stopped_by is not None:
            return
        self.stopped_by = reason
        self.choices.wake()
        for one in tuple(self.live):
            one.stop(reason)

    # For the race as well.

    def begin(self, choice: Choice) -> Try:
        try:
            began = Try(self.engine, self.request, self._answer, choice, self.begun + 1)
        except BaseException:
            self.choices.give_back(choice)
            raise
        self.begun += 1
        self.live.append(began)
        if began.attempt.plan.is_hedge:
            self._hedge_after_s = 0.0
        return began

    async def run_to_end(self, one: Try) -> Tried:
        try:
            end = await one.run()
        finally:
            self.live.remove(one)
            self.choices.give_back(one.choice)
        if isinstance(end, AttemptFailed):
            tried = Tried(one.attempt, end.reason, end)
        else:
            tried = Tried(one.attempt, end)
        self.tried.append(tried)
        return tried

    def lead(self, one: Try) -> None:
        """This one will answer."""
        self.live.sort(key=lambda other: other is not one)

    def decide(self, one: Tried) -> None:
        """This one counts for the request, whichever ended last."""
        self.tried.sort(key=lambda other: other is one)

    def _refusal(self, failures: Sequence[AttemptFailed]) -> Refusal:
        now = datetime.datetime.fromtimestamp(self.engine.clock.wall(), datetime.UTC)
        return final_refusal(failures, now=now)

    async def _next_choice(self, failure: AttemptFailed | None) -> Choice | None:
        choices, choice = self.choices, None
        may_go_on = failure is None or (self.stopped_by is None and not self._has_acted())
        if may_go_on:
            choice = await choices.next(failure, self.begun + 1)
        if choice is not None and self.stopped_by is not None:
            choices.give_back(choice)
            choice = None
        if self.tried:
            self.tried[-1].what_next = self._what_next(choices.what_next if may_go_on else "")
        return choice

    def _has_acted(self) -> bool:
        """The upstream ran a tool of its own, which asking again does not undo."""
        return any(one.attempt.facts.upstream_tool_started for one in self.tried)

    def _what_next(self, decided: str) -> str:
        if self.stopped_by is not None:
            return "stopped"
        return decided or "an upstream's tool has started"

    async def _run(self, choice: Choice) -> Tried:
        one = self.begin(choice)
        if self._hedge_after_s <= 0:
            return await self.run_to_end(one)
        plan = one.attempt.plan
        if not (plan.mode.asks_for_stream and may_race(self.request, plan.channel)):
            return await self.run_to_end(one)
        return await Race(self, one, self.engine.clock.now() + self._hedge_after_s).run()
