"""Keeping an outcome that could not be written, so that it is neither lost nor in the others' way."""

import logging

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from billing import metrics
from billing.models import DeadOutcome

_logger = logging.getLogger(__name__)


def dead_outcome_keep(*, request_id: str, payload: bytes, error_class: str) -> DeadOutcome:
    """Once per request id: a repeat replaces the payload and counts the failure.

    Errors: those of `django.db`; the record then stays in the store and comes again.
    """
    _logger.error("outcome of request %s could not be written: %s", request_id[:64], error_class)
    metrics.DEAD.inc()
    with transaction.atomic():
        dead, created = DeadOutcome.objects.get_or_create(
            request_id=request_id[:64], defaults={"payload": payload, "error_class": error_class[:200]}
        )
        if not created:
            DeadOutcome.objects.filter(pk=dead.pk).update(
                payload=payload,
                error_class=error_class[:200],
                failures=F("failures") + 1,
                failed_at=Now(),
                resolved_at=None,
            )
            dead.refresh_from_db()
    return dead
