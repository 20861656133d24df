"""Two attempts side by side: the first, and from some moment on a backup on another channel.

The first to prove itself wins, and in that very step the other one is stopped: there is no moment in which
both could answer. The first attempt runs in the task of its request, the backup in one of its own, which is
over before the race is.
"""

import asyncio
from typing import TYPE_CHECKING

from relay.core.end_reasons import EndReason
from relay.upstream.aio_tasks import spawn
from relay.upstream.attempt import Attempt
from relay.upstream.one_try import Try
from relay.upstream.record import Tried

if TYPE_CHECKING:
    from relay.upstream.series import Series


class Race:
    """One backup at most. due: when it starts, seconds of the engine's clock."""

    __slots__ = ("_backup", "_due", "_first", "_over", "_series", "_task", "_waiting", "_winner")

    def __init__(self, series: "Series", first: Try, due: float) -> None:
        self._series = series
        self._first = first
        self._due = due
        self._backup: Try | None = None
        self._task: asyncio.Task[None] | None = None
        self._winner: Try | None = None
        self._over: list[Tried] = []
        self._waiting: list[tuple[Attempt, asyncio.Future[None]]] = []
        first.attempt.rivals = self

    async def run(self) -> Tried:
        """The attempt that decides: the winner, else what is to be judged when both have failed."""
        timer = self._series.engine.clock.call_at(self._due, self._start_backup)
        try:
            self._note_end(await self._series.run_to_end(self._first))
            timer.cancel()
            if self._task is not None:
                await asyncio.wait({self._task})
        finally:
            timer.cancel()
            if self._task is not None and not self._task.done():
                self._abandon(self._task)
        return self._over[0] if self._backup is None else self._decided(self._backup)

    # For the attempts.

    def win(self, attempt: Attempt) -> None:
        if self._winner is not None:
            return
        winner, loser = self._first, self._backup
        if attempt is not winner.attempt:
            assert loser is not None  # noqa: S101  nobody else runs
            winner, loser = loser, winner
        self._winner = winner
        self._series.lead(winner)
        if loser is not None:
            loser.stop(EndReason.HEDGE_LOST)

    def may_go(self, attempt: Attempt) -> bool:
        return self._winner is not None or all(one.attempt is attempt for one in self._running)

    async def turn(self, attempt: Attempt) -> None:
        """Where all that are left wait, the one that came first goes on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((attempt, turn))
        try:
            self._let_one_go()
            await turn
        finally:
            self._waiting.remove((attempt, turn))

    # The backup.

    def _start_backup(self) -> None:
        """The delay is over. Nothing starts if the first attempt has shown anything, or has just ended."""
        series, attempt = self._series, self._first.attempt
        is_late = attempt.is_open and not attempt.events
        if is_late and self._winner is None and series.stopped_by is None and series.engine.take_hedge():
            self._task = spawn(self._run_backup(), name=f"hedge-{series.request.id}")

    async def _run_backup(self) -> None:
        series = self._series
        try:
            choice = await series.choices.backup(series.begun + 1)
            if choice is None:
                return
            if self._winner is not None or series.stopped_by is not None:
                series.choices.give_back(choice)
                return
            self._backup = series.begin(choice)
            self._backup.attempt.rivals = self
            self._note_end(await series.run_to_end(self._backup))
        finally:
            hedges = series.engine.hedges
            hedges.give_back(series.engine.clock.now(), was_made=self._backup is not None)

    def _abandon(self, task: asyncio.Task[None]) -> None:
        """The loop is going down."""
        if self._backup is None:
            task.cancel()
        else:
            self._backup.stop(EndReason.GATEWAY_SHUTDOWN)

    # The end.

    @property
    def _running(self) -> list[Try]:
        over = [one.attempt for one in self._over]
        return [one for one in (self._first, self._backup) if one is not None and one.attempt not in over]

    def _note_end(self, tried: Tried) -> None:
        self._over.append(tried)
        self._let_one_go()

    def _let_one_go(self) -> None:
        if self._waiting and len(self._waiting) == len(self._running):
            turn = self._waiting[0][1]
            if not turn.done():
                turn.set_result(None)

    def _decided(self, backup: Try) -> Tried:
        """Tells the walk from where it goes on, and the record which attempt counts."""
        decisive = self._over[-1]
        if self._winner is not None:
            decisive = self._tried(self._winner)
        elif self._is_final(first := self._tried(self._first)):
            decisive = first
        other = next(one for one in self._over if one is not decisive)
        choices = (self._first.choice, backup.choice)
        ours, others = choices if decisive.attempt is self._first.attempt else choices[::-1]
        self._series.choices.raced(ours, others, other.failure)
        if other.end_reason is EndReason.HEDGE_LOST:
            other.what_next = f"attempt {decisive.attempt.plan.number} proved itself first"
        self._series.decide(decisive)
        return decisive

    def _is_final(self, first: Tried) -> bool:
        """Without a backup this failure would have been the client's answer."""
        return first.failure is not None and self._series.choices.ends_with(self._first.choice, first.failure)

    def _tried(self, one: Try) -> Tried:
        return next(tried for tried in self._over if tried.attempt is one.attempt)
