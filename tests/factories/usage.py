"""Roll-ups for tests of reports, as the worker keeps them."""

import datetime
from typing import Any

from billing.models import FIRST_EVENT_BOUNDS_MS, UsageDaily, UsageHourly
from tests.factories.billing import Owner

DAY = datetime.date(2026, 3, 14)


def first_events(**by_bound: int) -> list[int]:
    """`first_events(ms_100=3, beyond=1)`: three within 100 ms, one beyond the last bound."""
    counts = [by_bound.get(f"ms_{bound}", 0) for bound in FIRST_EVENT_BOUNDS_MS]
    return [*counts, by_bound.get("beyond", 0)]


def usage_make(owner: Owner, day: datetime.date = DAY, *, hour: int = 12, **figures: Any) -> None:
    """The same figures in both tables, for the owner's tenant, key and channel unless told otherwise."""
    place = {
        "tenant_id": owner.tenant.pk,
        "api_key_id": owner.api_key.pk,
        "channel_id": owner.channel.pk,
        "model": "gpt-4o",
    }
    row = {**place, "requests": 1, "successes": 1, **figures}
    UsageDaily.objects.create(day=day, **row)
    moment = datetime.datetime.combine(day, datetime.time(hour), datetime.UTC)
    UsageHourly.objects.create(hour=moment, **row)
