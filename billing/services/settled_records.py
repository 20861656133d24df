"""From the store's bytes to rows: what a worker does with the records it claimed."""

from collections.abc import Sequence

from billing.admission import SettledRecord
from billing.outcome_codec import UnreadableOutcome, outcome_decode
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.requests import requests_record
from relay.core.outcomes import RequestOutcome


def settled_records_write(records: Sequence[SettledRecord]) -> frozenset[str]:
    """Write the records' rows; the ids that may be acknowledged: written now or before, or kept as dead.

    Errors: `billing.db_errors.TRANSIENT_ERRORS`; then nothing may be acknowledged.
    """
    outcomes: list[RequestOutcome] = []
    unreadable: set[str] = set()
    for record in records:
        try:
            outcomes.append(outcome_decode(record.payload))
        except UnreadableOutcome as error:
            kind = type(error).__name__
            if dead_outcome_keep(request_id=record.request_id, payload=record.payload, error_class=kind):
                unreadable.add(record.request_id)
    recording = requests_record(outcomes)
    return recording.new | recording.repeated | recording.dead | unreadable
