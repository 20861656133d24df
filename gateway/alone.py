"""What an engine needs where there is no gateway around it: for the command-line tools.

Must not import Django, models or settings.
"""

import asyncio

from relay.core.estimate import Evidence
from relay.core.outcomes import RequestOutcome
from relay.core.types import Channel, RelayFlags, UpstreamKey


class OneOutcome:
    """`Recorder` of an engine that is asked once. `outcome`: awaited by whoever asked."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[RequestOutcome] = asyncio.get_running_loop().create_future()

    def report(self, outcome: RequestOutcome, evidence: Evidence) -> None:  # noqa: ARG002  nobody pays
        self.outcome.set_result(outcome)


class FixedControl:
    """`Control` that never changes."""

    def __init__(self, flags: RelayFlags) -> None:
        self._flags = flags

    def flags(self) -> RelayFlags:
        return self._flags

    def is_usable(self, channel: Channel, key: UpstreamKey) -> bool:  # noqa: ARG002  the port's signature
        return True

    def is_auto_disabled(self, key: UpstreamKey) -> bool:  # noqa: ARG002
        return False
