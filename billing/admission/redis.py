"""The store of many processes: Redis, changed only by the Lua scripts beside this file.

Keys: `<prefix>settled:payloads` (hash id → payload) and `<prefix>settled:due` (sorted set id → the
moment, in ms of the store's clock, from which the record may be claimed: when it was settled, or when
its claim runs out).

Must not import: models, the in-process store.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from billing.admission.store import (
    CLAIM_SECONDS,
    OpenState,
    RecordState,
    SettledCounts,
    SettledRecord,
    StoreUnavailable,
)

# The library's defaults (10 retries, 5 s) make a dead server cost seconds a call.
_SOCKET_TIMEOUT_S = 0.2
_CONNECTIONS_MAX = 16


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.lua").read_text()


def _settings() -> dict[str, Any]:
    return {
        "protocol": 2,  # cheaper to parse, and nothing here needs RESP3
        "socket_timeout": _SOCKET_TIMEOUT_S,
        "socket_connect_timeout": _SOCKET_TIMEOUT_S,
        "max_connections": _CONNECTIONS_MAX,
        "timeout": _SOCKET_TIMEOUT_S,  # wait for a free connection; the plain pool raises at its limit
    }


class RedisAdmissionPort:
    """The gateway's side. One object per process; its connections belong to the loop that uses it."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._payloads, self._due = _keys(prefix)
        self._client: redis.asyncio.Redis | None = None
        self._settle: Any = None

    async def settle(self, records: Sequence[SettledRecord]) -> None:
        if not records:
            return
        arguments: list[str | bytes] = []
        for record in records:
            arguments += (record.request_id, record.payload)
        self._connect()
        try:
            # A script the server forgot (restart) is loaded and called once more by the library.
            await self._settle(keys=(self._payloads, self._due), args=arguments)
        except redis.RedisError as error:
            raise _unavailable(error) from error

    async def state(self, request_id: str) -> RecordState | None:
        try:
            payload = await cast("Any", self._connect().hget(self._payloads, request_id))
        except redis.RedisError as error:
            raise _unavailable(error) from error
        return None if payload is None else RecordState(OpenState.SETTLED, payload)

    def held(self) -> list[SettledRecord]:
        return []

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connect(self) -> redis.asyncio.Redis:
        if self._client is None:
            pool = redis.asyncio.BlockingConnectionPool.from_url(
                self._url, retry=AsyncRetry(NoBackoff(), 0), **_settings()
            )
            self._client = redis.asyncio.Redis.from_pool(pool)
            self._settle = self._client.register_script(_script("settle"))
        return self._client


class RedisOpenRecords:
    """The workers' side. Thread-safe, and safe to use after a fork."""

    def __init__(self, url: str, prefix: str) -> None:
        self._payloads, self._due = _keys(prefix)
        pool = redis.BlockingConnectionPool.from_url(url, retry=Retry(NoBackoff(), 0), **_settings())
        self._client = redis.Redis.from_pool(pool)
        self._claim: Any = self._client.register_script(_script("claim"))
        self._acknowledge: Any = self._client.register_script(_script("acknowledge"))
        self._release: Any = self._client.register_script(_script("release"))
        self._counts: Any = self._client.register_script(_script("counts"))

    def claim(self, limit: int) -> list[SettledRecord]:
        try:
            answer = self._claim(keys=(self._payloads, self._due), args=(limit, CLAIM_SECONDS * 1000))
        except redis.RedisError as error:
            raise _unavailable(error) from error
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return [SettledRecord(request_id.decode(), payload) for request_id, payload in pairs]

    def acknowledge(self, request_ids: Collection[str]) -> None:
        if not request_ids:
            return
        try:
            self._acknowledge(keys=(self._payloads, self._due), args=tuple(request_ids))
        except redis.RedisError as error:
            raise _unavailable(error) from error

    def release(self, request_ids: Collection[str]) -> None:
        if not request_ids:
            return
        try:
            self._release(keys=(self._due,), args=tuple(request_ids))
        except redis.RedisError as error:
            raise _unavailable(error) from error

    def counts(self) -> SettledCounts:
        try:
            waiting, claimed, oldest_ms = self._counts(keys=(self._due,))
        except redis.RedisError as error:
            raise _unavailable(error) from error
        return SettledCounts(waiting, claimed, oldest_ms / 1000)

    def close(self) -> None:
        self._client.close()


def _keys(prefix: str) -> tuple[str, str]:
    return f"{prefix}settled:payloads", f"{prefix}settled:due"


def _unavailable(error: redis.RedisError) -> StoreUnavailable:
    return StoreUnavailable(type(error).__name__)
