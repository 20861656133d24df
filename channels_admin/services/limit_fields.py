"""The ceilings of a row, as services take them; 0 = no limit."""

from typing import TypedDict


class ConcurrencyFields(TypedDict, total=False):
    max_concurrent_requests: int
    max_concurrent_streams: int


class LimitFields(ConcurrencyFields, total=False):
    requests_per_minute: int
    tokens_per_minute: int
