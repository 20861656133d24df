"""Markers and answers of idempotency keys in Redis. `billing.admission.idempotency` says what the methods do.

Markers go over the store's one connection, in order with settlements. Answers are large: they have a
connection of their own, so that nobody's admission waits behind one.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from billing.admission.idempotency import KEPT_S, Mark, Marker, MarkState
from billing.admission.redis import scripts
from billing.admission.redis.codec import ticket_numbers
from billing.admission.redis.connection import Connection
from billing.admission.redis.store_task import NotSent, StoreTask
from billing.admission.store import StoreUnavailable

ANSWERS_BYTES_MAX = 512 * 1024 * 1024
_KEPT_MS = KEPT_S * 1000
_ANSWERS_AT_ONCE = 4
"""In one batch, which has a time limit."""

_LATE = "late"
_mark_decoder = msgspec.msgpack.Decoder(tuple[str, str])


class RedisIdempotency:
    """markers: the task of the port that this belongs to."""

    def __init__(
        self, url: str, prefix: str, markers: StoreTask, *, answers_bytes_max: int = ANSWERS_BYTES_MAX
    ) -> None:
        self._prefix = prefix
        self._markers = markers
        self._answers = StoreTask(lambda: Connection(url), batch_max=_ANSWERS_AT_ONCE)
        self._answers_bytes_max = answers_bytes_max
        self._tickets = ticket_numbers()

    async def begin(self, epoch: str, marker: Marker) -> Mark:
        ticket = next(self._tickets)
        try:
            reply = await self._begin(epoch, marker, ticket)
        except NotSent:
            raise
        except BaseException:
            # Cancelled, or the answer got lost: what was taken, or will be, is given back.
            named = (marker.key, marker.request_id, ticket)
            self._markers.post(scripts.IDEMPOTENCY_WITHDRAW, self._prefix, *named)
            raise
        state, request_id = _mark_decoder.decode(reply)
        if state == _LATE:
            raise StoreUnavailable("withdrawn")
        return Mark(MarkState(state), request_id)

    async def restore(self, epoch: str, markers: Sequence[Marker]) -> None:
        await asyncio.gather(*(self._begin(epoch, marker, next(self._tickets)) for marker in markers))

    async def _begin(self, epoch: str, marker: Marker, ticket: str) -> bytes:
        named = (*_named(marker), epoch, _KEPT_MS, ticket)
        reply: bytes = await self._markers.call(scripts.IDEMPOTENCY_BEGIN, self._prefix, *named)
        return reply

    def release(self, marker: Marker) -> None:
        self._markers.post(scripts.IDEMPOTENCY_RELEASE, self._prefix, marker.key, marker.request_id)

    def ended(self, epoch: str, marker: Marker) -> None:
        self._markers.post(scripts.IDEMPOTENCY_ENDED, self._prefix, *_named(marker), epoch, _KEPT_MS)

    def finish(self, marker: Marker) -> None:
        self._markers.post(scripts.IDEMPOTENCY_FINISH, self._prefix, marker.key, marker.request_id)

    async def keep(self, marker: Marker, answer: bytes) -> None:
        limits = (_KEPT_MS, self._answers_bytes_max)
        await self._answers.call(
            scripts.IDEMPOTENCY_KEEP, self._prefix, marker.key, marker.request_id, *limits, answer
        )

    async def answer(self, request_id: str) -> bytes | None:
        found: bytes | None = await self._answers.call(scripts.IDEMPOTENCY_ANSWER, self._prefix, request_id)
        return found

    async def aclose(self) -> None:
        """The answers' connection; the markers' is its owner's."""
        await self._answers.aclose()


def _named(marker: Marker) -> tuple[str, str, str]:
    return marker.key, marker.fingerprint, marker.request_id
