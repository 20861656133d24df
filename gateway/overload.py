"""When this process should take no more work: refusing is cheap, and better than being slow for everybody.

Looked at before anything is parsed. Each reason is told by its name and counted; limits of one tenant are
`gateway.admission`'s.
"""

import asyncio
import os
import resource
from collections.abc import Callable

from gateway.metrics import ACTIVE_REQUESTS, LOOP_LAG, OVERLOADED
from relay.core.errors import Refusal
from relay.upstream.aio_tasks import spawn

SAMPLE_S = 0.5
LAG_MAX_S = 1.0
"""A loop that is this late twice in a row serves nobody well; once, it was a hiccup."""
DESCRIPTORS_SHARE = 0.9
_RETRY_AFTER_S = 5


class Overload:
    """One per process and loop.

    is_full: the recorder takes no more. active_streams, active_requests: running ones. streams_max: the flag,
    0 = no limit.
    """

    def __init__(
        self,
        *,
        is_full: Callable[[], bool],
        active_streams: Callable[[], int],
        active_requests: Callable[[], int],
        streams_max: Callable[[], int],
    ) -> None:
        self._is_full = is_full
        self._active_streams = active_streams
        self._active_requests = active_requests
        self._streams_max = streams_max
        self._lag_s = self._lag_before_s = 0.0
        self._has_descriptors = True
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._sample(), name="overload")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def check(self, *, is_stream: bool) -> None:
        """Raises Refusal 503 naming what is short."""
        reason = self._reason(is_stream=is_stream)
        if reason is not None:
            code, message = reason
            OVERLOADED.labels(code).inc()
            raise Refusal(
                503, f"{message} Try again.", kind="api_error", code=code, retry_after_s=_RETRY_AFTER_S
            )

    def _reason(self, *, is_stream: bool) -> tuple[str, str] | None:
        if self._is_full():
            return "overloaded", "The gateway cannot record more requests right now."
        if is_stream and (limit := self._streams_max()) and self._active_streams() >= limit:
            return "too_many_streams", f"The gateway runs its limit of {limit} streams."
        if not self._has_descriptors:
            return "too_many_connections", "The gateway is at its limit of open connections."
        if min(self._lag_s, self._lag_before_s) > LAG_MAX_S:
            return "overloaded", "The gateway is overloaded."
        return None

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + SAMPLE_S
            await asyncio.sleep(SAMPLE_S)
            self._lag_before_s, self._lag_s = self._lag_s, loop.time() - due
            LOOP_LAG.set(self._lag_s)
            ACTIVE_REQUESTS.set(self._active_requests())
            self._has_descriptors = _descriptors_open() < _descriptors_max() * DESCRIPTORS_SHARE


def _descriptors_open() -> int:
    try:
        return sum(1 for _ in os.scandir("/proc/self/fd"))
    except OSError:
        return 0  # no /proc on this system: the limit itself will tell


def _descriptors_max() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30
