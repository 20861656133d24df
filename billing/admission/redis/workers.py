"""The workers' side of the Redis store. The methods are described in `billing.admission.store`."""

import secrets
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from billing.admission.open_record import AccountState
from billing.admission.redis import scripts
from billing.admission.redis.codec import account_arguments, record_state
from billing.admission.redis.connection import Argument
from billing.admission.store import (
    CLAIM_SECONDS,
    RecordState,
    SettledCounts,
    SettledRecord,
    StoreUnavailable,
)

# The library's defaults (10 retries, 5 s) make a dead server cost seconds a call.
_SOCKET_TIMEOUT_S = 0.2
_CONNECTIONS_MAX = 16
_CLAIM_MS = CLAIM_SECONDS * 1000

_counts_decoder = msgspec.msgpack.Decoder(tuple[int, int, float, int])
_members_decoder = msgspec.msgpack.Decoder(list[str])


class RedisOpenRecords:
    """Thread-safe, and safe to use after a fork."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        pool = redis.BlockingConnectionPool.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # cheaper to parse, and nothing here needs RESP3
            socket_timeout=_SOCKET_TIMEOUT_S,
            socket_connect_timeout=_SOCKET_TIMEOUT_S,
            max_connections=_CONNECTIONS_MAX,
            timeout=_SOCKET_TIMEOUT_S,  # wait for a free connection; the plain pool raises at its limit
        )
        self._client: Any = redis.Redis.from_pool(pool)

    def claim(self, limit: int) -> list[SettledRecord]:
        parts = self._call(scripts.CLAIM, limit, _CLAIM_MS)
        return [
            SettledRecord(request_id.decode(), payload, int(account_id), int(amount))
            for request_id, payload, account_id, amount in zip(*[iter(parts)] * 4, strict=True)
        ]

    def acknowledge(self, request_ids: Collection[str], accounts: Sequence[AccountState] = ()) -> None:
        if request_ids or accounts:
            self._call(scripts.ACKNOWLEDGE, len(request_ids), *request_ids, *account_arguments(accounts))

    def release(self, request_ids: Collection[str]) -> None:
        if request_ids:
            self._call(scripts.RELEASE, *request_ids)

    def claim_abandoned(self, limit: int) -> list[tuple[str, bytes]]:
        parts = self._call(scripts.CLAIM_ABANDONED, limit, _CLAIM_MS)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return [(request_id.decode(), record) for request_id, record in pairs]

    def acknowledge_abandoned(self, request_ids: Collection[str], accounts: Sequence[AccountState]) -> None:
        if request_ids or accounts:
            counted: tuple[Argument, ...] = (len(request_ids), *request_ids)
            self._call(scripts.ACKNOWLEDGE_ABANDONED, *counted, *account_arguments(accounts))

    def accounts_put(self, accounts: Sequence[AccountState]) -> None:
        if accounts:
            self._call(scripts.ACCOUNTS_PUT, *account_arguments(accounts))

    def recompute(self) -> dict[int, int]:
        """One account a step, so that no step takes the store long."""
        changes = {int(account): int(self._call(scripts.RECOMPUTE, account)) for account in self._open()}
        return {account_id: nano for account_id, nano in changes.items() if nano}

    def open_amounts(self) -> dict[int, int]:
        amounts = {int(account): int(nano) for account, nano in self._open().items()}
        return {account_id: nano for account_id, nano in amounts.items() if nano}

    def holders(self, lease: str) -> list[str]:
        members = _members_decoder.decode(self._call(scripts.HOLDERS, lease))
        return sorted({member.partition("|")[0] for member in members})

    def state(self, request_id: str) -> RecordState | None:
        return record_state(self._call(scripts.STATE, request_id))

    def settled_ids(self, limit: int) -> list[str]:
        if limit < 1:
            return []
        found = self._command("ZRANGE", f"{self._prefix}due", 0, limit - 1)
        return [request_id.decode() for request_id in found]

    def beat(self) -> None:
        self._call(scripts.BEAT, "", secrets.token_hex(8))

    def counts(self) -> SettledCounts:
        waiting, claimed, oldest_ms, running = _counts_decoder.decode(self._call(scripts.COUNTS))
        return SettledCounts(waiting, claimed, oldest_ms / 1000, running)

    def close(self) -> None:
        self._client.close()

    def _open(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self._command("HGETALL", f"{self._prefix}open")
        return found

    def _call(self, script: scripts.Script, *arguments: Argument) -> Any:
        try:
            return self._command("EVALSHA", script.sha, 1, self._prefix, *arguments)
        except StoreUnavailable as error:
            # A server that restarted has not seen the script: nothing has happened.
            if not isinstance(error.__cause__, redis.exceptions.NoScriptError):
                raise
        return self._command("EVAL", script.text, 1, self._prefix, *arguments)

    def _command(self, *parts: Argument) -> Any:
        try:
            return self._client.execute_command(*parts)
        except redis.RedisError as error:
            raise StoreUnavailable(type(error).__name__) from error
