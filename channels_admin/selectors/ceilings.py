"""Rows with ceilings → the frozen value."""

from channels_admin.models.base import LimitedModel, RateLimitedModel
from relay.core.types import Ceilings


def ceilings_of(row: LimitedModel) -> Ceilings:
    if isinstance(row, RateLimitedModel):
        return Ceilings(
            row.max_concurrent_requests,
            row.max_concurrent_streams,
            row.requests_per_minute,
            row.tokens_per_minute,
        )
    return Ceilings(row.max_concurrent_requests, row.max_concurrent_streams)
