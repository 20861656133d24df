"""A second try for a dead outcome by hand, once its cause is gone."""

import functools
import logging
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from billing.admission import StoreUnavailable, open_records
from billing.admission.open_record import AccountState
from billing.db_errors import TRANSIENT_ERRORS
from billing.models import DeadOutcome
from billing.outcome_codec import record_decode
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.requests import request_record_or_raise

_logger = logging.getLogger(__name__)


def dead_outcome_replay(dead: DeadOutcome) -> bool:
    """Write its rows. True: they are there, and `resolved_at` says since when. False: it failed again,
    and the row says why.

    Errors: `TRANSIENT_ERRORS`, which say nothing about the outcome.
    """
    payload = bytes(dead.payload)
    try:
        recording = request_record_or_raise(record_decode(payload))
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  shown to the operator by its class
        dead_outcome_keep(request_id=dead.request_id, payload=payload, error_class=type(error).__name__)
        return False
    dead.resolved_at = timezone.now()
    dead.save(update_fields=["resolved_at"])
    transaction.on_commit(functools.partial(_acknowledge, dead.request_id, recording.accounts))
    return True


def _acknowledge(request_id: str, accounts: Sequence[AccountState]) -> None:
    """What the record held goes. Best effort: it is found by the next claim, if not now."""
    try:
        open_records().acknowledge([request_id], accounts)
    except StoreUnavailable as error:
        _logger.warning("the store did not take a written outcome yet: %s", type(error).__name__)
