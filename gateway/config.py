"""The configuration of this process: one immutable snapshot, renewed by a poll of the version row.

Each relay request takes `current` once and keeps it. A change that was committed anywhere is here within
one poll; changed API keys and tenants are told to whoever caches them.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.db import Error as AnyDatabaseError
from django.utils import timezone

from billing.selectors.prices import PriceSection, load_prices
from channels_admin.selectors.api_keys import AccessChanges, changed_access
from channels_admin.snapshots import ChannelSection, load_section
from gateway.threads import DatabaseThreads
from relay.upstream.aio_tasks import spawn

POLL_S = 0.3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """One state of the whole configuration. version: that of both sections."""

    channels: ChannelSection
    prices: PriceSection

    def priced_models(self, group: str) -> frozenset[str]:
        """Names that have a price now, not one that begins later; patterns and paths are not names."""
        return self.prices.book.priced_names(group, timezone.now())

    @property
    def version(self) -> int:
        return self.channels.version


def _load(previous: ConfigSnapshot | None) -> tuple[ConfigSnapshot, AccessChanges | None]:
    channels = load_section(previous.channels if previous else None)
    if previous is not None and channels is previous.channels:
        return previous, None
    prices = load_prices(previous.prices if previous else None)
    changes = changed_access(previous.version) if previous is not None else None
    return ConfigSnapshot(channels, prices), changes


class Configuration:
    """Polls; `on_access_change` is called on the loop before the new snapshot is current."""

    def __init__(self, on_access_change: Callable[[AccessChanges, int], None]) -> None:
        self._on_access_change = on_access_change
        self._threads = DatabaseThreads(name="config", size=1)
        self._snapshot: ConfigSnapshot | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    @property
    def current(self) -> ConfigSnapshot:
        if self._snapshot is None:
            raise RuntimeError("no configuration was loaded yet")
        return self._snapshot

    async def start(self) -> None:
        """Raises what the first load raises: without any configuration there is nothing to serve."""
        await self.refresh()
        self._task = spawn(self._poll(), name="config-poll")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._threads.aclose()

    async def refresh(self) -> None:
        snapshot, changes = await self._threads.run(_load, self._snapshot)
        if snapshot is self._snapshot:
            return
        if changes is not None:
            self._on_access_change(changes, snapshot.version)
        self._snapshot = snapshot

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.refresh()
            except (AnyDatabaseError, ValueError) as error:
                self._note_failure(error)
            else:
                self._is_failing = False

    def _note_failure(self, error: Exception) -> None:
        """The last snapshot stays in force; one line per outage."""
        if not self._is_failing:
            logger.warning("configuration poll fails: %s; the last snapshot stays", type(error).__name__)
        self._is_failing = True
