"""What runs at regular times: read by Celery beat, and by the ticker of the embedded mode.

Must not import: anything. Settings may import it: `CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE`.
"""

from typing import TypedDict


class ScheduleOptions(TypedDict):
    expires: float


class ScheduleEntry(TypedDict):
    """schedule: seconds between two runs. An unread message expires after one period."""

    task: str
    schedule: float
    options: ScheduleOptions


BEAT_SCHEDULE: dict[str, ScheduleEntry] = {
    # Finds what a lost nudge, a killed worker or a database outage left behind.
    "record-settled": {"task": "billing.record_settled", "schedule": 15.0, "options": {"expires": 15.0}},
}
