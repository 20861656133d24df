"""How many image requests run at once, and who waits in which order when there are more.

A slot is one more lease of the request's admission, tested first: of the process's own (scope `process`) or
of all that share the store (`cluster`). So it goes wherever the request ends, and with a process that dies.
Waiting is fair within the process: only the first in line asks again, when a slot may have come free or every
`RETRY_S`. Nothing here is a failure of a channel.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from billing.admission.open_record import LeaseAsk
from relay.core.errors import Refusal

RETRY_S = 0.25
RETRY_AFTER_S = 5
NAME = "images"
T = TypeVar("T")


class NoImageSlot(Exception):
    """Raised by an admission whose image lease found no room."""


@dataclass(frozen=True, slots=True)
class ImageLimit:
    """The flags, as one value. max_waiting: per process."""

    slots: int
    is_waiting_allowed: bool
    wait_timeout_s: float
    max_waiting: int
    is_cluster_wide: bool

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> "ImageLimit | None":
        """None: no limit is in force, and nothing changes."""
        if not flags["IMAGE_CONCURRENCY_ENABLED"]:
            return None
        slots = int(str(flags["IMAGE_CONCURRENCY_MAX_CONCURRENT_REQUESTS"]))
        if slots < 1:
            return None
        return cls(
            slots=slots,
            is_waiting_allowed=flags["IMAGE_CONCURRENCY_OVERFLOW_MODE"] == "wait",
            wait_timeout_s=float(str(flags["IMAGE_CONCURRENCY_WAIT_TIMEOUT_SECONDS"])),
            max_waiting=int(str(flags["IMAGE_CONCURRENCY_MAX_WAITING_REQUESTS"])),
            is_cluster_wide=flags["IMAGE_CONCURRENCY_SCOPE"] == "cluster",
        )


class ImageGate:
    """One per process and loop. The line holds one event for each waiting request: "a slot may be free"."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Event] = deque()

    @property
    def waiting(self) -> int:
        return len(self._line)

    def lease(self, limit: ImageLimit, process_id: str) -> LeaseAsk:
        return LeaseAsk(NAME if limit.is_cluster_wide else f"{NAME}:{process_id}", limit.slots)

    def released(self) -> None:
        """A slot may be free: whoever is first in line looks at once."""
        if self._line:
            self._line[0].set()

    async def pass_through(self, limit: ImageLimit, admit: Callable[[], Awaitable[T]]) -> T:
        """What `admit` gives once there is a slot. Raises Refusal 429, and whatever else `admit` raises."""
        if not self._line:  # nobody is before us
            try:
                return await admit()
            except NoImageSlot:
                pass
        if not limit.is_waiting_allowed:
            raise _refusal(limit, "Try again later.")
        if len(self._line) >= limit.max_waiting:
            raise _refusal(limit, f"{limit.max_waiting} requests wait already.")
        return await self._in_line(limit, admit)

    async def _in_line(self, limit: ImageLimit, admit: Callable[[], Awaitable[T]]) -> T:
        place = asyncio.Event()
        deadline = asyncio.get_running_loop().time() + limit.wait_timeout_s
        self._line.append(place)
        try:
            while True:
                # Only the wait has a limit: what an admission took must not be lost to a timer.
                async with asyncio.timeout_at(deadline):
                    await self._turn(place)
                with contextlib.suppress(NoImageSlot):
                    return await admit()
        except TimeoutError:
            raise _refusal(limit, f"None came free within {limit.wait_timeout_s:g} s.") from None
        finally:
            self._line.remove(place)
            self.released()  # the next one may find room as well

    async def _turn(self, place: asyncio.Event) -> None:
        """Until this place is first in line, and a slot may be free or it is time to look again."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._line[0] is place else None):
                    await place.wait()
            place.clear()
            if self._line[0] is place:
                return


def _refusal(limit: ImageLimit, message: str) -> Refusal:
    return Refusal(
        429,
        f"Image limit reached: {limit.slots} image requests run at once. {message}",
        kind="rate_limit_error",
        code="image_concurrency_limit",
        retry_after_s=RETRY_AFTER_S,
    )
