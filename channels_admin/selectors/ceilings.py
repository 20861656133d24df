"""Rows with ceilings → the frozen value."""

from channels_admin.models.base import LimitedModel, RateLimitedModel
from relay.core.types import NO_CEILINGS, Ceilings


def ceilings_of(row: LimitedModel) -> Ceilings:
    values = [row.max_concurrent_requests, row.max_concurrent_streams]
    if isinstance(row, RateLimitedModel):
        values += [row.requests_per_minute, row.tokens_per_minute]
    return Ceilings(*values) if any(values) else NO_CEILINGS
