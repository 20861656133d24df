"""What runs at regular times: read by Celery beat, and by the ticker of the embedded mode.

Must not import: anything. Settings may import it: `CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE`.
"""

from typing import TypedDict

REGULAR_QUEUE = "regular"
"""Of the jobs below: a worker serves it and the nudges' queue, unless `-Q` says otherwise."""


class ScheduleOptions(TypedDict):
    expires: float
    queue: str


class ScheduleEntry(TypedDict):
    """schedule: seconds between two runs. An unread message expires after one period."""

    task: str
    schedule: float
    options: ScheduleOptions


def every(seconds: float, task: str) -> ScheduleEntry:
    return {"task": task, "schedule": seconds, "options": {"expires": seconds, "queue": REGULAR_QUEUE}}


BEAT_SCHEDULE: dict[str, ScheduleEntry] = {
    # Oftener than the store takes a silence for an outage of its own (`store.SILENCE_S`).
    "heartbeat": every(5.0, "billing.heartbeat"),
    # Finds what a lost nudge, a killed worker or process, or a database outage left behind.
    "reconcile-open-records": every(15.0, "billing.reconcile_open_records"),
    "recompute-open-amounts": every(600.0, "billing.recompute_open_amounts"),
    "accounts-publish": every(15.0, "billing.accounts_publish"),
    "delete-old-requests": every(60.0, "billing.delete_old_requests"),
    "slice-usage": every(120.0, "billing.slice_usage"),
    "reconcile-ledger": every(3600.0, "billing.reconcile_ledger"),
}
