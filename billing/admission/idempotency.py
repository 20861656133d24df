"""Who works on an `Idempotency-Key`, and what came of it: the store's part.

A key's marker names one request and is in one of four states: *running* (somebody works on it), *ended*
(with success; its answer follows once its outcome is settled), *done* (the answer is here, or can never be
given out again), and gone. A running marker whose process is dead counts as gone; an ended one is done then.
Markers and answers go after `KEPT_S`. Answers go earlier, the oldest first, when all together are too large:
their markers stay, so that nobody runs the request a second time.

Keys and fingerprints are keyed hashes and answers are sealed: the store learns nothing of either. Must not
import: Django, Redis.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

KEPT_S = 24 * 3600
ANSWER_BYTES_MAX = 1024 * 1024
"""Of one answer's body; larger ones are not kept."""


class Marker(msgspec.Struct, frozen=True, gc=False):
    """One request under its key. key: hash of tenant, API key and header. fingerprint: of what is asked."""

    key: str
    fingerprint: str
    request_id: str


class MarkState(StrEnum):
    MINE = "mine"
    """The request is to run, and nobody else with this key."""
    RUNNING = "running"
    """Another one runs, or its answer is on its way here."""
    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    """Another one succeeded, but its answer cannot be given out (any more)."""
    OTHER = "other"
    """The key belongs to a request that asked something else."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """request_id: whose the key is."""

    state: MarkState
    request_id: str


class IdempotencyPort(Protocol):
    """The gateway's side, called on the event loop. Errors of all coroutines: StoreUnavailable.

    Queued calls never wait; they are sent again until the store took them. Calls in the name of a request
    that no longer has the key change nothing.
    """

    async def begin(self, epoch: str, marker: Marker) -> Mark:
        """Takes the key, or tells who has it. If this fails or is cancelled, the key is not taken."""

    async def restore(self, epoch: str, markers: Sequence[Marker]) -> None:
        """For a store that forgot them or held their process for dead. They are running then, unless it knows
        better: `ended` must follow for those that are.
        """

    def release(self, marker: Marker) -> None:
        """It failed, or never ran: the next request with the key runs. Queued."""

    def ended(self, epoch: str, marker: Marker) -> None:
        """It succeeded; `keep` or `finish` follows. Queued, before whatever is settled after this call."""

    def finish(self, marker: Marker) -> None:
        """There will be no answer to give out. Queued."""

    async def keep(self, marker: Marker, answer: bytes) -> None:
        """The answer of an ended request, sealed."""

    async def answer(self, request_id: str) -> bytes | None:
        """What was kept of this request; None: it is not here any more."""
