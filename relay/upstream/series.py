"""The attempts of one relay request, one after another, until one answers or nothing is left to try."""

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed, Refusal
from relay.core.failover import Candidate
from relay.core.request import RelayRequest
from relay.core.retry import final_refusal
from relay.core.types import Channel, UpstreamKey
from relay.upstream.answer import Answer
from relay.upstream.attempt import Attempt
from relay.upstream.choices import Choice, Choices
from relay.upstream.one_try import Try
from relay.upstream.record import Tried

if TYPE_CHECKING:
    from relay.upstream.engine import Engine


class Series:
    """tried: the attempts that are over. running: the one that is not. stopped_by: who ended it."""

    __slots__ = ("_answer", "_choices", "_engine", "_request", "running", "stopped_by", "tried")

    def __init__(
        self,
        engine: "Engine",
        request: RelayRequest,
        answer: Answer,
        candidates: Sequence[Candidate],
        first: tuple[Channel, UpstreamKey] | None,
    ) -> None:
        self.tried: list[Tried] = []
        self.running: Try | None = None
        self.stopped_by: EndReason | None = None
        self._engine = engine
        self._request = request
        self._answer = answer
        self._choices = Choices(engine, request, candidates, first)

    @property
    def begun(self) -> int:
        """How many attempts were begun."""
        return len(self.tried) + (self.running is not None)

    @property
    def attempt(self) -> Attempt | None:
        """The one that runs, else the last one."""
        if self.running is not None:
            return self.running.attempt
        return self.tried[-1].attempt if self.tried else None

    async def run(self) -> tuple[EndReason, Refusal | None]:
        """How the request ended, and what its client is told instead of an answer."""
        failures: list[AttemptFailed] = []
        while choice := await self._next_choice(failures[-1] if failures else None):
            end = await self._run_one(choice)
            if isinstance(end, EndReason):
                return end, None
            failures.append(end)
            if self.tried[-1].attempt.is_committed:
                end.message = end.message or "The upstream's answer broke off."
                break
        if self.stopped_by is not None:
            return self.stopped_by, None
        now = datetime.datetime.fromtimestamp(self._engine.clock.wall(), datetime.UTC)
        reason = failures[-1].reason if failures else EndReason.GATEWAY_ERROR
        return reason, final_refusal(failures, now=now)

    def stop(self, reason: EndReason) -> None:
        """Ends the running attempt; no other follows. The first reason wins."""
        if self.stopped_by is not None:
            return
        self.stopped_by = reason
        self._choices.wake()
        if self.running is not None:
            self.running.stop(reason)

    async def _next_choice(self, failure: AttemptFailed | None) -> Choice | None:
        choices = self._choices
        choice = None
        if failure is None or self.stopped_by is None:
            choice = await choices.next(failure, len(self.tried) + 1)
        if choice is not None and self.stopped_by is not None:
            choices.give_back(choice)
            choice = None
        if self.tried:
            self.tried[-1].what_next = choices.what_next if self.stopped_by is None else "stopped"
        return choice

    async def _run_one(self, choice: Choice) -> EndReason | AttemptFailed:
        try:
            current = Try(self._engine, self._request, self._answer, choice, len(self.tried) + 1)
            self.running = current
            end = await current.run()
        finally:
            self.running = None
            self._choices.give_back(choice)
        if isinstance(end, AttemptFailed):
            self.tried.append(Tried(current.attempt, end.reason, end.error_class))
        else:
            self.tried.append(Tried(current.attempt, end))
        return end
