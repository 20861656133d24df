"""A second try for a dead outcome, once its cause is gone."""

from django.utils import timezone

from billing.db_errors import TRANSIENT_ERRORS
from billing.models import DeadOutcome
from billing.outcome_codec import record_decode
from billing.services.account_states import account_states_publish
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.requests import request_record_or_raise


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
    account_states_publish(recording.accounts)
    dead.resolved_at = timezone.now()
    dead.save(update_fields=["resolved_at"])
    return True
