"""Celery tasks: thin shells around services. They carry no payload; store and rows say what there is to do.

In the embedded mode all of them run in the one thread that writes: each ends well before a claim does.
"""

import contextlib
import logging
import time
from collections.abc import Sequence
from itertools import islice

from celery import shared_task
from django.conf import settings

from billing import metrics
from billing.admission import OpenRecords, SettledRecord, StoreUnavailable, open_records
from billing.db_errors import TRANSIENT_ERRORS
from billing.services.account_states import account_states_publish, accounts_publish_changed
from billing.services.ledger_check import ledger_check
from billing.services.reconciling import abandoned_requests_book, settled_records_forget_final
from billing.services.retention import requests_delete_old
from billing.services.settled_records import settled_records_write, spooled_records_write
from billing.services.usage_slices import usage_slices_build
from billing.spool import spool_recover

CLAIM_MAX = 200
TIME_BUDGET_S = 10.0
"""Well below the task time limit and the 30 s of a claim: the rest is for the next nudge."""
SLICES_BUDGET_S = 5.0
"""It may wait: days that are over do not run away."""

_TOLD_MAX = 20
"""Accounts in one line."""

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


@shared_task(name="billing.heartbeat")
def heartbeat() -> None:
    """Somebody lives: without it, the last process's death would look like an outage of the store, in which
    nothing is abandoned.
    """
    with contextlib.suppress(StoreUnavailable):  # its own users tell that it is away
        open_records().beat()


@shared_task(name="billing.reconcile_open_records")
def reconcile_open_records() -> None:
    """Find what a step that failed left behind: lost acknowledgements and nudges, dead processes."""
    try:
        store = open_records()
        if forgotten := settled_records_forget_final(store):
            _logger.warning("the store held %d settled records that were written before", forgotten)
        if abandoned := abandoned_requests_book(store):
            metrics.ABANDONED.inc(abandoned)
            _logger.warning("%d requests of dead processes were booked as abandoned", abandoned)
    except (StoreUnavailable, *TRANSIENT_ERRORS) as error:
        _interrupted("reconcile_open_records", error)
        return
    record_settled()


@shared_task(name="billing.accounts_publish")
def accounts_publish() -> None:
    """Bring the store the balances that changed since the last run, should a message have got lost."""
    try:
        accounts_publish_changed()
    except (StoreUnavailable, *TRANSIENT_ERRORS) as error:
        _interrupted("accounts_publish", error)


@shared_task(name="billing.recompute_open_amounts")
def recompute_open_amounts() -> None:
    """The cached sums of open amounts anew from the records: should one be wrong, not for long, and not
    without a word.
    """
    try:
        changes = open_records().recompute()
    except StoreUnavailable as error:
        _interrupted("recompute_open_amounts", error)
        return
    metrics.OPEN_SUMS_CORRECTED.inc(len(changes))
    if changes:
        told = ", ".join(f"{account} by {nano:+d}" for account, nano in islice(changes.items(), _TOLD_MAX))
        _logger.error("sums of open amounts of %d accounts were wrong; put right: %s", len(changes), told)


@shared_task(name="billing.reconcile_ledger")
def reconcile_ledger() -> None:
    """Check each account's chain from where the last check ended, and roll-ups against the ledger."""
    try:
        ledger_check(budget_s=TIME_BUDGET_S)
    except TRANSIENT_ERRORS as error:
        _interrupted("reconcile_ledger", error)


@shared_task(name="billing.slice_usage")
def slice_usage() -> None:
    """Sums of the days that are over, for reports; until they are made, reports read more rows."""
    try:
        usage_slices_build(budget_s=SLICES_BUDGET_S)
    except TRANSIENT_ERRORS as error:
        _interrupted("slice_usage", error)


@shared_task(name="billing.delete_old_requests")
def delete_old_requests() -> None:
    """Retention: requests older than `RETENTION_DAYS` go; ledger and roll-ups stay."""
    try:
        requests_delete_old(open_records())
    except (StoreUnavailable, *TRANSIENT_ERRORS) as error:
        _interrupted("delete_old_requests", error)


def record_spooled() -> None:
    """Record what earlier processes left in DATA_DIR. Never raises. No task: the files are on this host."""
    spool_recover(settings.DATA_DIR, _record_spooled)


def _record_spooled(records: Sequence[SettledRecord]) -> frozenset[str]:
    recording = spooled_records_write(records)
    account_states_publish(recording.accounts)
    return recording.done


def _record_batch(store: OpenRecords) -> bool:
    """Whether there may be more."""
    records = store.claim(CLAIM_MAX)
    if records:
        try:
            recording = settled_records_write(records)
        except TRANSIENT_ERRORS:
            # Not left to the end of the claim: the process may end before that.
            store.release([record.request_id for record in records])
            raise
        store.acknowledge(recording.written, recording.accounts)
        _Outage.end()
    return len(records) == CLAIM_MAX


def _interrupted(task: str, error: Exception) -> None:
    metrics.TASKS_INTERRUPTED.inc()
    _logger.warning("%s was interrupted (%s); its next run goes on", task, type(error).__name__)


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
