"""How channels and upstream keys are doing: failures in a row, and until when one rests.

State, not configuration: it lives in Redis, or in the one serving process where there is no Redis.
`store.py` is the interface, `memory.py` and `redis.py` implement it; both pass the same contract tests. What
follows from it (a channel that goes out) is a service: `channels_admin.services.route_health`.
"""

from functools import cache

from django.conf import settings

from channels_admin.health.memory import MemoryHealth
from channels_admin.health.redis import RedisHealth
from channels_admin.health.store import HealthStore, HealthUnavailable, Route, RouteHealth, RouteKind

__all__ = [
    "HealthStore",
    "HealthUnavailable",
    "Route",
    "RouteHealth",
    "RouteKind",
    "health_forget",
    "health_store",
]

_DEFAULT_PREFIX = "sluice:"


@cache
def health_store() -> HealthStore:
    """The process's one store."""
    if not settings.REDIS_URL:
        return MemoryHealth()
    return RedisHealth(settings.REDIS_URL, getattr(settings, "ADMISSION_KEY_PREFIX", _DEFAULT_PREFIX))


def health_forget() -> None:
    """Build the store anew on next use: for tests that change settings."""
    health_store.cache_clear()
