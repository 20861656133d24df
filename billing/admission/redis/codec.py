"""What the scripts are told, and what they answer: MessagePack, as one reply costs less than its parts."""

import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from billing.admission.open_record import (
    AccountState,
    AccountUnknown,
    Admission,
    AdmissionAsk,
    Admitted,
    RefusedBalance,
    RefusedLimit,
)
from billing.admission.redis.connection import Argument
from billing.admission.store import (
    ADMISSION_HOLDER,
    Checkpoint,
    OpenRestore,
    OpenState,
    RecordState,
    SettledRecord,
    StoreUnavailable,
)

pack = msgspec.msgpack.Encoder().encode


class _Taken(msgspec.Struct, frozen=True, array_like=True, tag="admitted", gc=False):
    candidate: int
    balance: str
    open: str


class _Limit(msgspec.Struct, frozen=True, array_like=True, tag="limit", gc=False):
    name: str
    limit: int
    retry_after_s: int


class _Balance(msgspec.Struct, frozen=True, array_like=True, tag="balance", gc=False):
    balance: str
    open: str


class _Unknown(msgspec.Struct, frozen=True, array_like=True, tag="unknown", gc=False):
    pass


class _Late(msgspec.Struct, frozen=True, array_like=True, tag="late", gc=False):
    pass


_admission = msgspec.msgpack.Decoder(_Taken | _Limit | _Balance | _Unknown | _Late)


def ticket_numbers() -> Iterator[str]:
    """Names of calls, by which one of them can be withdrawn; no other process makes the same."""
    start = secrets.token_hex(8)
    return (f"{start}:{number}" for number in itertools.count())


def admission_decode(reply: bytes, ask: AdmissionAsk) -> Admission:
    """Errors: StoreUnavailable for an admission that was withdrawn before it arrived."""
    answer = _admission.decode(reply)
    if isinstance(answer, _Taken):
        return Admitted(answer.candidate, int(answer.balance) - int(answer.open))
    if isinstance(answer, _Limit):
        return RefusedLimit(answer.name, answer.limit, answer.retry_after_s)
    if isinstance(answer, _Balance):
        return RefusedBalance(ask.hold_nano, int(answer.balance) - int(answer.open))
    if isinstance(answer, _Late):
        raise StoreUnavailable("withdrawn")
    return AccountUnknown()


def account_arguments(accounts: Iterable[AccountState]) -> list[int]:
    """account, balance, seq, ..."""
    return [part for account in accounts for part in (account.account_id, account.balance_nano, account.seq)]


def admit_arguments(epoch: str, ticket: str, ask: AdmissionAsk) -> tuple[bytes, bytes]:
    """Packed (epoch, ticket, id, account, hold, ceilings), and the record, which need not be unpacked."""
    account, ceilings = str(ask.account_id), (ask.leases, ask.rates, ask.candidates)
    return pack((epoch, ticket, ask.request_id, account, ask.hold_nano, *ceilings)), ask.record


def checkpoint_arguments(checkpoints: Iterable[Checkpoint]) -> list[Argument]:
    """id, hold, record, ..."""
    return [part for one in checkpoints for part in (one.request_id, one.hold_nano, one.record)]


def settled_arguments(records: Iterable[SettledRecord]) -> list[Argument]:
    """id, account, amount, payload, ..."""
    arguments: list[Argument] = []
    for record in records:
        arguments += (record.request_id, record.account_id, record.amount_nano, record.payload)
    return arguments


def restore_arguments(records: Iterable[OpenRestore]) -> list[Argument]:
    """id, account, hold, record, packed (holder, lease, ...), ..."""
    arguments: list[Argument] = []
    for record in records:
        one = record.checkpoint
        arguments += (one.request_id, one.account_id, one.hold_nano, one.record, pack(_held(record)))
    return arguments


def record_state(fields: Sequence[Any]) -> RecordState | None:
    """From state, payload and epoch."""
    state, payload, epoch = fields
    if state is None:
        return None
    return RecordState(OpenState.SETTLED if state == b"s" else OpenState.RUNNING, payload, epoch.decode())


def _held(record: OpenRestore) -> list[str]:
    held = [part for name in record.leases for part in (ADMISSION_HOLDER, name)]
    return held + [part for pair in record.attempt_leases for part in pair]
