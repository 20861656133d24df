"""From the store's bytes to rows: what a worker does with the records it claimed."""

from collections.abc import Callable, Iterable, Sequence

from billing.admission import SettledRecord
from billing.outcome_codec import UnreadableOutcome, open_record_decode, settlement_decode
from billing.services.dead_outcomes import dead_outcome_keep, dead_outcomes_among, dead_outcomes_resolve
from billing.services.requests import Record, Recording, requests_record


def settled_records_write(records: Sequence[SettledRecord]) -> Recording:
    """Write the rows of records that were claimed. Its `written` may be acknowledged.

    Dead ones stay in the store, with what they hold, and are tried again after `DEAD_RETRY_S`. Errors:
    `billing.db_errors.TRANSIENT_ERRORS`; then nothing may be acknowledged.
    """
    return _write_claimed(_pairs(records), settlement_decode)


def spooled_records_write(records: Sequence[SettledRecord]) -> Recording:
    """Write the rows of records that are in no store. Its `done` need not be kept any longer.

    Errors: `TRANSIENT_ERRORS`; then all must be kept.
    """
    return _write(_pairs(records), settlement_decode)


def abandoned_records_write(records: Sequence[tuple[str, bytes]]) -> Recording:
    """Book requests whose process is gone, as of their last checkpoint; (request id, encoded `OpenRecord`).

    One whose row exists is left alone: the outcome was here before. As `settled_records_write` else.
    """
    return _write_claimed(records, open_record_decode)


def _pairs(records: Sequence[SettledRecord]) -> list[tuple[str, bytes]]:
    return [(record.request_id, record.payload) for record in records]


def _write_claimed(records: Sequence[tuple[str, bytes]], decode: Callable[[bytes], Record]) -> Recording:
    dead = dead_outcomes_among([request_id for request_id, _ in records])
    recording = _write([one for one in records if one[0] not in dead.resting], decode)
    dead_outcomes_resolve(recording.written & dead.retried)
    return recording


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
