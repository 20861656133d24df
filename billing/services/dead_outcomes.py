"""Keeping an outcome that could not be written, so that it is neither lost nor in the others' way.

Its record stays in the store, so that what it holds is not spent twice, and is tried again now and then.
"""

import datetime
import logging
from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from billing import metrics
from billing.db_errors import TRANSIENT_ERRORS
from billing.models import DeadOutcome
from billing.services.ledger_entries import database_now

DEAD_RETRY_S = 3_600.0
"""After its last failure. What fails thus fails for a reason that seldom goes by itself."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnresolvedDead:
    """Request ids. resting: failed less than `DEAD_RETRY_S` ago; retried: longer ago."""

    resting: frozenset[str] = frozenset()
    retried: frozenset[str] = frozenset()


def dead_outcomes_among(request_ids: Collection[str]) -> UnresolvedDead:
    """One query, and hardly ever two. Errors: those of `django.db`."""
    rows = DeadOutcome.objects.filter(request_id__in=request_ids, resolved_at=None)
    failed_at = dict(rows.values_list("request_id", "failed_at"))
    if not failed_at:
        return UnresolvedDead()
    due = database_now() - datetime.timedelta(seconds=DEAD_RETRY_S)
    resting = frozenset(request_id for request_id, moment in failed_at.items() if moment > due)
    return UnresolvedDead(resting, frozenset(failed_at) - resting)


def dead_outcomes_resolve(request_ids: Collection[str]) -> None:
    """Their rows are there. Errors: those of `django.db`."""
    if request_ids:
        DeadOutcome.objects.filter(request_id__in=request_ids, resolved_at=None).update(resolved_at=Now())


def dead_outcome_keep(*, request_id: str, payload: bytes, error_class: str) -> bool:
    """Once per request id: a repeat replaces the payload and counts the failure.

    False: not even that could be written; the record must stay where it is. Errors: TRANSIENT_ERRORS.
    """
    _logger.error("outcome of request %s could not be written: %s", request_id[:64], error_class)
    metrics.DEAD.inc()
    try:
        _keep(request_id[:64], payload, error_class[:200])
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  it must not hold up the rest of its batch
        _logger.error("it could not be kept either: %s", type(error).__name__)  # noqa: TRY400  its text may quote the values
        return False
    return True


def _keep(request_id: str, payload: bytes, error_class: str) -> None:
    with transaction.atomic():
        dead, created = DeadOutcome.objects.get_or_create(
            request_id=request_id, defaults={"payload": payload, "error_class": error_class}
        )
        if not created:
            DeadOutcome.objects.filter(pk=dead.pk).update(
                payload=payload,
                error_class=error_class,
                failures=F("failures") + 1,
                failed_at=Now(),
                resolved_at=None,
            )
