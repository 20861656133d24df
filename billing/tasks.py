"""Celery tasks: thin shells around services. They carry no payload; the store says what there is to do."""

import logging
import time

from celery import shared_task

from billing import metrics
from billing.admission import OpenRecords, StoreUnavailable, open_records
from billing.db_errors import TRANSIENT_ERRORS
from billing.services.settled_records import settled_records_write

CLAIM_MAX = 200
TIME_BUDGET_S = 10.0
"""Well below the task time limit and the 30 s of a claim: the rest is for the next nudge."""

_logger = logging.getLogger(__name__)


@shared_task(name="billing.record_settled")
def record_settled() -> None:
    """Write settled records until there are none, or the time is up.

    When database or store do not answer, the run ends: claimed records come back by themselves when
    their claim runs out, and the schedule nudges again.
    """
    deadline = time.monotonic() + TIME_BUDGET_S
    try:
        while _record_batch(open_records()) and time.monotonic() < deadline:
            pass
    except (StoreUnavailable, *TRANSIENT_ERRORS) as error:
        metrics.RECORDING_INTERRUPTED.inc()
        _logger.warning("recording interrupted (%s); the records come back", type(error).__name__)


def _record_batch(store: OpenRecords) -> bool:
    """Whether there may be more."""
    records = store.claim(CLAIM_MAX)
    if records:
        store.acknowledge(settled_records_write(records))
    return len(records) == CLAIM_MAX
