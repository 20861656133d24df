"""Writing what settled: requests, attempts and usage, each exactly once.

The request's row is the only guard: attempts and usage are written for the ids whose insert was new, in
the same transaction, so that a repeated, doubled or reordered batch changes nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from billing import metrics
from billing.db_errors import TRANSIENT_ERRORS
from billing.models import Attempt, UsageRecord
from billing.outcome_codec import outcome_encode
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.guarded_insert import rows_insert_new
from billing.services.outcome_rows import attempt_row, request_row, usage_row
from relay.core.outcomes import RequestOutcome

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of a batch, as request ids. `dead` ones are kept as DeadOutcome rows.

    An outcome in none of the three was neither written nor kept: its record must stay in the store.
    """

    new: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def __or__(self, other: "Recording") -> "Recording":
        return Recording(self.new | other.new, self.repeated | other.repeated, self.dead | other.dead)


def requests_record(outcomes: Sequence[RequestOutcome]) -> Recording:
    """One transaction for all; if that fails for another reason than the moment, one for each.

    Errors: `TRANSIENT_ERRORS`; what was written before stays, and a repeat does no harm.
    """
    try:
        recording = _write(outcomes)
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  one bad outcome must not hold up the others
        _logger.warning("a batch of %d outcomes failed: %s", len(outcomes), type(error).__name__)
        recording = _write_singly(outcomes)
    metrics.RECORDED.inc(len(recording.new))
    metrics.REPEATED.inc(len(recording.repeated))
    return recording


def request_record_or_raise(outcome: RequestOutcome) -> Recording:
    """One outcome, for a replay: the caller hears why it fails."""
    return _write([outcome])


def _write(outcomes: Sequence[RequestOutcome]) -> Recording:
    rows = {outcome.request_id: request_row(outcome) for outcome in reversed(outcomes)}
    # In the order of their keys: two workers with the same records wait for each other, never in a ring.
    ordered = sorted(rows.values(), key=lambda row: row.pk)
    by_id = {outcome.request_id: outcome for outcome in reversed(outcomes)}
    with transaction.atomic():
        new = rows_insert_new(ordered)
        fresh = [(rows[key].pk, outcome) for key, outcome in by_id.items() if rows[key].pk in new]
        Attempt.objects.bulk_create(
            attempt_row(pk, attempt) for pk, outcome in fresh for attempt in outcome.attempts
        )
        UsageRecord.objects.bulk_create(usage_row(pk, outcome.usage) for pk, outcome in fresh)
    written = frozenset(outcome.request_id for _, outcome in fresh)
    return Recording(new=written, repeated=frozenset(rows) - written)


def _write_singly(outcomes: Sequence[RequestOutcome]) -> Recording:
    recording = Recording()
    for outcome in outcomes:
        recording |= _write_or_keep(outcome)
    return recording


def _write_or_keep(outcome: RequestOutcome) -> Recording:
    try:
        return _write([outcome])
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  kept as a DeadOutcome, with its class
        is_kept = dead_outcome_keep(
            request_id=outcome.request_id, payload=outcome_encode(outcome), error_class=type(error).__name__
        )
        return Recording(dead=frozenset({outcome.request_id} if is_kept else ()))
