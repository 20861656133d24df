"""One attempt of a relay request, from its plan to its end, in the task that runs it.

A request's attempts run one after another in the request's own task; one that is to run beside another is
given a task of its own. Whoever ends an attempt, it ends once, and tells the port of health once.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from relay.core.end_reasons import EndReason
from relay.core.errors import AttemptFailed, described
from relay.core.health import attempt_verdict
from relay.core.request import RelayRequest
from relay.core.scrubbing import scrub_failure
from relay.core.selection import claims
from relay.upstream.answer import Answer
from relay.upstream.attempt import Attempt
from relay.upstream.choices import Choice
from relay.upstream.plan import make_plan, upstream_host
from relay.upstream.readings import READINGS

if TYPE_CHECKING:
    from relay.upstream.engine import Engine

logger = logging.getLogger(__name__)


class Try:
    __slots__ = ("_engine", "_stopped_by", "_task", "attempt", "choice")

    def __init__(
        self, engine: "Engine", request: RelayRequest, answer: Answer, choice: Choice, number: int
    ) -> None:
        self.choice = choice
        self.attempt = Attempt(
            make_plan(request, choice, engine.control.flags(), number=number),
            request,
            answer,
            transport=engine.transport,
            clock=engine.clock,
            interrupt=self._cancel,
            max_event_bytes=engine.max_event_bytes,
        )
        self._engine = engine
        self._stopped_by: EndReason | None = None
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> EndReason | AttemptFailed:
        """How it ended, whoever ended it. Never raises; a failure is scrubbed."""
        self._task = asyncio.current_task()
        end = self._stopped_by or await self._outcome()
        if isinstance(end, AttemptFailed):
            host = upstream_host(self.choice.channel.base_url).partition(":")[0]
            scrub_failure(end, tuple(filter(None, (self.attempt.revealed, host))))
        self._note_health(end)
        return end

    def stop(self, reason: EndReason) -> None:
        """Ends it from outside. The first reason wins; one that has ended already is left alone."""
        if self._stopped_by is None:
            self._stopped_by = reason
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and self.attempt.is_open:
            self.attempt.is_open = False  # one cancellation an attempt, never into its clean-up
            self._task.cancel()

    async def _outcome(self) -> EndReason | AttemptFailed:
        attempt = self.attempt
        try:
            return await attempt.run(READINGS[attempt.plan.mode])
        except AttemptFailed as failure:
            return failure
        except Exception as error:  # noqa: BLE001  a bug of ours ends this attempt, and is recorded as its end
            logger.error("an attempt failed in the gateway: %s", described(error))  # noqa: TRY400  no message
            return EndReason.GATEWAY_ERROR
        except asyncio.CancelledError:
            if self._stopped_by is None and attempt.expired is None:
                self._stopped_by = EndReason.GATEWAY_SHUTDOWN  # the loop is going down: not our cancel
            elif self._task is not None:
                self._task.uncancel()
        if attempt.is_committed and attempt.facts.terminal_seen:
            return EndReason.COMPLETED
        return self._stopped_by or self._expiry()

    def _expiry(self) -> EndReason | AttemptFailed:
        attempt = self.attempt
        assert attempt.expired is not None  # noqa: S101  the caller has seen the cancellation's cause
        if attempt.expired is EndReason.COMPLETED_WITHOUT_TERMINAL:
            try:
                return attempt.end_quietly()
            except AttemptFailed as failure:
                return failure
        if attempt.expired is EndReason.CLIENT_DISCONNECTED:
            return attempt.expired
        if attempt.expired is EndReason.UPSTREAM_REJECTED and attempt.rejection is not None:
            return attempt.rejection
        return AttemptFailed(attempt.expired, error_class="timeout")

    def _note_health(self, end: EndReason | AttemptFailed) -> None:
        channel, choice = self.choice.channel, self.choice
        if self.attempt.is_detached:
            end = EndReason.CLIENT_DISCONNECTED  # read on for its usage only: the client decided how it went
        self._engine.health.note(
            attempt_verdict(
                end,
                channel_id=channel.id,
                key_id=choice.key.id,
                claimed=isinstance(end, AttemptFailed) and claims(channel, choice.model),
                wall=self._engine.clock.wall(),
            )
        )
