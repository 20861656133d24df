"""Keeping an outcome that could not be written, so that it is neither lost nor in the others' way."""

import logging

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from billing import metrics
from billing.db_errors import TRANSIENT_ERRORS
from billing.models import DeadOutcome

_logger = logging.getLogger(__name__)


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
