"""What the store holds and should not: settled records whose row is final, requests of dead processes."""

from uuid import UUID

from billing.admission import OpenRecords
from billing.models import RelayRequest, RequestState
from billing.services.booking import account_states_of
from billing.services.settled_records import abandoned_records_write

RUN_MAX = 1_000
"""Records looked at in one run."""
_BATCH = 200


def settled_records_forget_final(store: OpenRecords) -> int:
    """Removes settled records whose row is final: their acknowledgement got lost. How many.

    Errors: StoreUnavailable, `TRANSIENT_ERRORS`.
    """
    keys = {key: request_id for request_id in store.settled_ids(RUN_MAX) if (key := _uuid(request_id))}
    rows = RelayRequest.objects.filter(pk__in=keys, state=RequestState.FINAL)
    final = dict(rows.values_list("pk", "tenant_id"))
    if final:
        store.acknowledge([keys[key] for key in final], account_states_of(set(final.values())))
    return len(final)


def abandoned_requests_book(store: OpenRecords) -> int:
    """Books running records of dead processes as of their last checkpoint. How many; about `RUN_MAX` at most.

    A second run finds nothing but what could not be booked. Errors: StoreUnavailable, `TRANSIENT_ERRORS`;
    what was claimed comes back when its claim runs out.
    """
    booked = looked_at = 0
    while looked_at < RUN_MAX and (records := store.claim_abandoned(_BATCH)):
        recording = abandoned_records_write(records)
        store.acknowledge_abandoned(recording.written, recording.accounts)
        looked_at += len(records)
        booked += len(recording.new)
    return booked


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
