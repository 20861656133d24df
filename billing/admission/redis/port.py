"""The gateway's side of the Redis store. The methods are described in `billing.admission.store`."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from billing.admission.open_record import (
    NO_CANDIDATE,
    AccountState,
    Admission,
    AdmissionAsk,
    LeaseAsk,
    RefusedLimit,
)
from billing.admission.redis import scripts
from billing.admission.redis.codec import (
    account_arguments,
    admission_decode,
    admit_arguments,
    checkpoint_arguments,
    pack,
    record_state,
    restore_arguments,
    settled_arguments,
    ticket_numbers,
)
from billing.admission.redis.connection import Connection
from billing.admission.redis.idempotency import RedisIdempotency
from billing.admission.redis.store_task import NotSent, StoreTask
from billing.admission.store import (
    Beat,
    Checkpoint,
    OpenRestore,
    RecordState,
    SettledRecord,
)

T = TypeVar("T")

_PART = 500
_beat_decoder = msgspec.msgpack.Decoder(tuple[str, bool])
_ids_decoder = msgspec.msgpack.Decoder(set[str])


class RedisAdmissionPort:
    """One object per process; its connection belongs to the loop that uses it."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        self._task = StoreTask(lambda: Connection(url))
        self.idempotency = RedisIdempotency(url, prefix, self._task)
        self._tickets = ticket_numbers()

    async def admit(self, epoch: str, ask: AdmissionAsk) -> Admission:
        ticket = next(self._tickets)
        try:
            reply = await self._task.call(scripts.ADMIT, self._prefix, *admit_arguments(epoch, ticket, ask))
            return admission_decode(reply, ask)
        except NotSent:
            raise
        except BaseException:
            # Cancelled, or the answer got lost: what was taken, or will be, is given back.
            self._task.post(scripts.WITHDRAW, self._prefix, ask.request_id, ticket)
            raise

    async def lease(
        self, request_id: str, holder: str, candidates: Sequence[Sequence[LeaseAsk]]
    ) -> int | RefusedLimit:
        try:
            chosen: int = await self._task.call(
                scripts.LEASE, self._prefix, request_id, holder, pack(candidates)
            )
        except NotSent:
            raise
        except BaseException:
            self.release_leases(request_id, holder)
            raise
        return NO_CANDIDATE if chosen < 0 else chosen

    def release_leases(self, request_id: str, holder: str) -> None:
        self._task.post(scripts.RELEASE_LEASES, self._prefix, request_id, holder)

    def withdraw(self, request_id: str) -> None:
        self._task.post(scripts.WITHDRAW, self._prefix, request_id, "")

    async def checkpoint(self, epoch: str, checkpoints: Sequence[Checkpoint]) -> frozenset[str]:
        refused: set[str] = set()
        for part in _parts(checkpoints):
            arguments = checkpoint_arguments(part)
            reply = await self._task.call(scripts.CHECKPOINT, self._prefix, epoch, *arguments)
            refused |= _ids_decoder.decode(reply)
        return frozenset(refused)

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        for part in _parts(records):
            await self._task.call(scripts.SETTLE, self._prefix, *settled_arguments(part))

    async def beat(self, epoch: str) -> Beat:
        reply = await self._task.call(scripts.BEAT, self._prefix, epoch, secrets.token_hex(8))
        return Beat(*_beat_decoder.decode(reply))

    async def restore(self, epoch: str, records: Sequence[OpenRestore]) -> None:
        for part in _parts(records):
            await self._task.call(scripts.RESTORE, self._prefix, epoch, *restore_arguments(part))

    async def leave(self, epoch: str) -> None:
        await self._task.call(scripts.LEAVE, self._prefix, epoch)

    async def accounts_put(self, accounts: Sequence[AccountState]) -> None:
        for part in _parts(accounts):
            await self._task.call(scripts.ACCOUNTS_PUT, self._prefix, *account_arguments(part))

    async def correct_rates(self, amounts: Mapping[str, int]) -> None:
        arguments = [part for item in amounts.items() for part in item]
        if arguments:
            await self._task.call(scripts.CORRECT_RATES, self._prefix, *arguments)

    async def state(self, request_id: str) -> RecordState | None:
        return record_state(await self._task.call(scripts.STATE, self._prefix, request_id))

    def held(self) -> list[SettledRecord]:
        return []

    async def aclose(self) -> None:
        await self.idempotency.aclose()
        await self._task.aclose()


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """No step may take the store long: others wait for it meanwhile."""
    for start in range(0, len(items), _PART):
        yield items[start : start + _PART]
