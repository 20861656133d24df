"""Ends running requests whose API key, or whose tenant, was closed meanwhile.

Asked only when access was changed, and only about keys that run something.
"""

import logging
import time
from collections.abc import Callable, Iterable

from django.db import Error as AnyDatabaseError

from channels_admin.selectors.api_keys import AccessChanges, revoked_api_keys
from gateway.threads import DatabaseThreads
from relay.core.end_reasons import EndReason
from relay.core.types import Caller
from relay.upstream.aio_tasks import spawn
from relay.upstream.engine import Engine

REMEMBERED_S = 900.0
"""A change concerns requests that were authenticated before it: uploads and waits end sooner than this."""

_logger = logging.getLogger(__name__)


class Revocation:
    """One per process and loop. now: monotonic seconds."""

    def __init__(
        self, engine: Engine, threads: DatabaseThreads, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._now = now
        self._recent: list[tuple[float, AccessChanges]] = []

    def note(self, changes: AccessChanges) -> None:
        """Looks, in a thread, which of the changed keys may ask no more."""
        self._recent = [*self._still_recent(), (self._now(), changes)]
        self._look_at(
            running.request.caller
            for running in self._engine.running.values()
            if _is_touched(running.request.caller, changes)
        )

    def begun(self, caller: Caller) -> None:
        """A request began that was authenticated a while ago: it sent its body, or waited for its turn."""
        if self._recent and any(_is_touched(caller, changes) for _, changes in self._recent):
            self._recent = self._still_recent()
            self._look_at([caller])

    def _still_recent(self) -> list[tuple[float, AccessChanges]]:
        since = self._now() - REMEMBERED_S
        return [(at, changes) for at, changes in self._recent if at > since]

    def _look_at(self, callers: Iterable[Caller]) -> None:
        api_key_ids = {caller.api_key_id for caller in callers}
        if api_key_ids:
            spawn(self._end(api_key_ids), name="revocation")

    async def _end(self, api_key_ids: set[int]) -> None:
        try:
            revoked = await self._threads.read(revoked_api_keys, api_key_ids)
        except AnyDatabaseError as error:
            _logger.warning("running requests of changed keys go on: %s", type(error).__name__)
            return
        for running in list(self._engine.running.values()):
            if running.request.caller.api_key_id in revoked:
                running.stop(EndReason.REVOKED)


def _is_touched(caller: Caller, changes: AccessChanges) -> bool:
    return caller.api_key_id in changes.api_key_ids or caller.tenant_id in changes.tenant_ids
