"""Brings balances that another process changed into the in-process store: a top-up by `apply`, say.

Only where there is no Redis: else whoever changes a balance tells the shared store itself.
"""

import asyncio
import datetime
import logging

from django.db import Error as AnyDatabaseError

from billing.admission import AdmissionPort
from billing.selectors.accounts import accounts_newer_than
from gateway.threads import DatabaseThreads
from relay.upstream.aio_tasks import spawn

POLL_S = 0.5

_logger = logging.getLogger(__name__)


class AccountsPoll:
    """One per process and loop."""

    def __init__(self, port: AdmissionPort) -> None:
        self._port = port
        self._threads = DatabaseThreads(name="accounts", size=1)
        self._since: datetime.datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    def start(self) -> None:
        self._task = spawn(self._run(), name="accounts-poll")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._threads.aclose()

    async def _run(self) -> None:
        while True:
            try:
                newer = await self._threads.run(accounts_newer_than, self._since)
                await self._port.accounts_put(newer.states)
                self._since = newer.until
            except AnyDatabaseError as error:
                if not self._is_failing:
                    _logger.warning("balances are not renewed for now: %s", type(error).__name__)
                self._is_failing = True
            else:
                self._is_failing = False
            await asyncio.sleep(POLL_S)
