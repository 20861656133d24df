"""Ends running requests whose API key, or whose tenant, was closed meanwhile.

Asked only when access was changed, and only about keys that run something.
"""

import logging

from django.db import Error as AnyDatabaseError

from channels_admin.selectors.api_keys import AccessChanges, revoked_api_keys
from gateway.threads import DatabaseThreads
from relay.core.end_reasons import EndReason
from relay.upstream.aio_tasks import spawn
from relay.upstream.engine import Engine

_logger = logging.getLogger(__name__)


class Revocation:
    """One per process and loop."""

    def __init__(self, engine: Engine, threads: DatabaseThreads) -> None:
        self._engine = engine
        self._threads = threads

    def note(self, changes: AccessChanges) -> None:
        """Looks, in a thread, which of the changed keys may ask no more."""
        touched = {
            caller.api_key_id
            for running in self._engine.running.values()
            if (caller := running.request.caller).api_key_id in changes.api_key_ids
            or caller.tenant_id in changes.tenant_ids
        }
        if touched:
            spawn(self._end(touched), name="revocation")

    async def _end(self, api_key_ids: set[int]) -> None:
        try:
            revoked = await self._threads.read(revoked_api_keys, api_key_ids)
        except AnyDatabaseError as error:
            _logger.warning("running requests of changed keys go on: %s", type(error).__name__)
            return
        for running in list(self._engine.running.values()):
            if running.request.caller.api_key_id in revoked:
                running.stop(EndReason.REVOKED)
