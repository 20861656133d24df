"""From the store's bytes to rows: what a worker does with the records it claimed."""

from collections.abc import Callable, Iterable, Sequence

from billing.admission import SettledRecord
from billing.outcome_codec import UnreadableOutcome, open_record_decode, settlement_decode
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.requests import Record, Recording, requests_record


def settled_records_write(records: Sequence[SettledRecord]) -> Recording:
    """Write the records' rows. Its `done` may be acknowledged: written now or before, or kept as dead.

    Errors: `billing.db_errors.TRANSIENT_ERRORS`; then nothing may be acknowledged.
    """
    return _write(((record.request_id, record.payload) for record in records), settlement_decode)


def abandoned_records_write(records: Sequence[tuple[str, bytes]]) -> Recording:
    """Book requests whose process is gone, as of their last checkpoint; (request id, encoded `OpenRecord`).

    One whose row exists is left alone: the outcome was here before. As `settled_records_write` else.
    """
    return _write(records, open_record_decode)


def _write(records: Iterable[tuple[str, bytes]], decode: Callable[[bytes], Record]) -> Recording:
    readable: list[Record] = []
    unreadable: set[str] = set()
    for request_id, payload in records:
        try:
            readable.append(decode(payload))
        except UnreadableOutcome as error:
            kind = type(error).__name__
            if dead_outcome_keep(request_id=request_id, payload=payload, error_class=kind):
                unreadable.add(request_id)
    return requests_record(readable) | Recording(dead=frozenset(unreadable))
