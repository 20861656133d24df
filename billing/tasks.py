"""Celery tasks: thin shells around services. They carry no payload; the store says what there is to do."""

import logging
import time

from celery import shared_task
from django.conf import settings

from billing import metrics
from billing.admission import OpenRecords, StoreUnavailable, open_records
from billing.db_errors import TRANSIENT_ERRORS
from billing.services.settled_records import settled_records_write
from billing.spool import spool_recover

CLAIM_MAX = 200
TIME_BUDGET_S = 10.0
"""Well below the task time limit and the 30 s of a claim: the rest is for the next nudge."""

_logger = logging.getLogger(__name__)


@shared_task(name="billing.record_settled")
def record_settled() -> None:
    """Write settled records until there are none, or the time is up.

    When database or store do not answer, the run ends and the schedule nudges again: records are given
    back at once, or come back when their claim runs out if the store took no word of it.
    """
    deadline = time.monotonic() + TIME_BUDGET_S
    try:
        while _record_batch(open_records()) and time.monotonic() < deadline:
            pass
    except (StoreUnavailable, *TRANSIENT_ERRORS) as error:
        _Outage.note(error)


def record_spooled() -> None:
    """Record what earlier processes left in DATA_DIR. Never raises. No task: the files are on this host."""
    spool_recover(settings.DATA_DIR, settled_records_write)


def _record_batch(store: OpenRecords) -> bool:
    """Whether there may be more."""
    records = store.claim(CLAIM_MAX)
    if records:
        try:
            written = settled_records_write(records)
        except TRANSIENT_ERRORS:
            # Not left to the end of the claim: the process may end before that.
            store.release([record.request_id for record in records])
            raise
        store.acknowledge(written)
        _Outage.end()
    return len(records) == CLAIM_MAX


class _Outage:
    """This process's interrupted runs in a row: a line when they begin and one when records are written."""

    runs = 0

    @classmethod
    def note(cls, error: Exception) -> None:
        metrics.RECORDING_INTERRUPTED.inc()
        cls.runs += 1
        if cls.runs == 1:
            _logger.warning("recording interrupted (%s); the records wait", type(error).__name__)

    @classmethod
    def end(cls) -> None:
        if cls.runs:
            _logger.warning("recording goes on after %d interrupted runs", cls.runs)
            cls.runs = 0
