"""Where open records live from admission until their row is written: in this process, or in Redis when
`REDIS_URL` is set.

`store.py` holds the two interfaces, `open_record.py` the values; `memory/` and `redis/` implement them and
pass the same contract tests. `mirror.py`, imported by whoever starts it, keeps the first as rows.
Must not import: models.
"""

from functools import cache

from django.conf import settings

from billing.admission.memory import MemoryStore
from billing.admission.redis import RedisAdmissionPort, RedisOpenRecords
from billing.admission.store import (
    AdmissionPort,
    OpenRecords,
    OpenState,
    RecordState,
    SettledCounts,
    SettledRecord,
    StoreUnavailable,
)

__all__ = [
    "AdmissionPort",
    "OpenRecords",
    "OpenState",
    "RecordState",
    "SettledCounts",
    "SettledRecord",
    "StoreUnavailable",
    "admission_forget",
    "admission_port",
    "memory_store",
    "open_records",
]

_DEFAULT_PREFIX = "sluice:"


@cache
def admission_port() -> AdmissionPort:
    """The process's one port for the event loop."""
    return RedisAdmissionPort(settings.REDIS_URL, _prefix()) if settings.REDIS_URL else memory_store()


@cache
def open_records() -> OpenRecords:
    """The process's one port for workers and other threads."""
    return RedisOpenRecords(settings.REDIS_URL, _prefix()) if settings.REDIS_URL else memory_store().workers


def admission_forget() -> None:
    """Build the ports anew on next use: for tests that change settings. Close the async port first."""
    for made in (admission_port, open_records, memory_store):
        made.cache_clear()


@cache
def memory_store() -> MemoryStore:
    """The store behind both ports where `REDIS_URL` is empty: for the mirror."""
    return MemoryStore()


def _prefix() -> str:
    return getattr(settings, "ADMISSION_KEY_PREFIX", _DEFAULT_PREFIX)
