"""The health store of many processes.

Keys: `<prefix>health:failures` (hash route → count), `<prefix>health:rests` (sorted set of routes by the
moment their rest ends, in ms of the store's clock), `<prefix>health:reasons` (hash route → why it rests).
Small: only what fails is in them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from channels_admin.health.store import HealthUnavailable, Route, RouteHealth, RouteKind

_SOCKET_TIMEOUT_S = 0.5
_CONNECTIONS_MAX = 8

_COOL = """
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not at or tonumber(at) < until_ms then
  redis.call('ZADD', KEYS[1], until_ms, ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
end
"""
_STATES = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)
for _, route in ipairs(over) do
  redis.call('HDEL', KEYS[2], route)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local rests = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for at = 2, #rests, 2 do rests[at] = tostring(rests[at] - now) end
return {redis.call('HGETALL', KEYS[3]), rests, redis.call('HGETALL', KEYS[2])}
"""


class RedisHealth:
    """One per process; connections are made when they are needed."""

    def __init__(self, url: str, prefix: str) -> None:
        self._failures = f"{prefix}health:failures"
        self._rests = f"{prefix}health:rests"
        self._reasons = f"{prefix}health:reasons"
        pool = redis.BlockingConnectionPool.from_url(
            url,
            protocol=2,
            socket_timeout=_SOCKET_TIMEOUT_S,
            socket_connect_timeout=_SOCKET_TIMEOUT_S,
            max_connections=_CONNECTIONS_MAX,
            timeout=_SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._client = redis.Redis.from_pool(pool)
        self._cool: Any = self._client.register_script(_COOL)
        self._states: Any = self._client.register_script(_STATES)

    def failed(self, route: Route) -> int:
        return int(self._run(self._client.hincrby, self._failures, _name(route), 1))

    def succeeded(self, route: Route) -> None:
        self.clear([route])

    def cool(self, route: Route, seconds: float, reason: str) -> None:
        arguments = (_name(route), int(seconds * 1000), reason)
        self._run(self._cool, keys=(self._rests, self._reasons), args=arguments)

    def clear(self, routes: Sequence[Route]) -> None:
        if not routes:
            return
        names = [_name(route) for route in routes]
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hdel(self._failures, *names)
        pipeline.zrem(self._rests, *names)
        pipeline.hdel(self._reasons, *names)
        self._run(pipeline.execute)

    def states(self) -> Mapping[Route, RouteHealth]:
        failures, rests, reasons = self._run(
            self._states, keys=(self._rests, self._reasons, self._failures), args=()
        )
        counts = {name: int(count) for name, count in _pairs(failures).items()}
        cooling = {name: float(left_ms) / 1000 for name, left_ms in _pairs(rests).items()}
        why = _pairs(reasons)
        return {
            _route(name): RouteHealth(
                counts.get(name, 0), cooling.get(name, 0.0), why.get(name, b"").decode()
            )
            for name in {*counts, *cooling}
        }

    def close(self) -> None:
        self._client.close()

    @staticmethod
    def _run(call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except redis.RedisError as error:
            raise HealthUnavailable(type(error).__name__) from error


def _name(route: Route) -> str:
    return f"{route.kind}:{route.id}"


def _route(name: bytes) -> Route:
    kind, _, number = name.decode().partition(":")
    return Route(RouteKind(kind), int(number))


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
