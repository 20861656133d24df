"""Writing what settled or was abandoned: requests, attempts, usage, charges and roll-ups, each exactly once.

The request's row is the only guard: everything else is written for the ids whose insert was new, or whose
row said `abandoned`, in the same transaction, so that a repeated, doubled or reordered batch changes nothing.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing import metrics
from billing.admission.open_record import AccountState, OpenRecord, Settlement
from billing.db_errors import TRANSIENT_ERRORS
from billing.outcome_codec import open_record_encode, settlement_encode
from billing.services.booking import requests_book
from billing.services.dead_outcomes import dead_outcome_keep
from billing.services.outcome_rows import rows_of

_logger = logging.getLogger(__name__)

Record = Settlement | OpenRecord


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of a batch, as request ids. `dead` ones were kept as DeadOutcome rows.

    An outcome in none of the three was neither written nor kept: its record must stay in the store.
    accounts: of the tenants whose requests are written, now or before; the store takes them with the ids.
    """

    new: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    accounts: tuple[AccountState, ...] = ()

    @property
    def written(self) -> frozenset[str]:
        """Their rows are there: the store may forget these."""
        return self.new | self.repeated

    @property
    def done(self) -> frozenset[str]:
        """The database has these, one way or the other."""
        return self.written | self.dead

    def __or__(self, other: "Recording") -> "Recording":
        return Recording(
            self.new | other.new,
            self.repeated | other.repeated,
            self.dead | other.dead,
            newest_states((*self.accounts, *other.accounts)),
        )


def requests_record(records: Sequence[Record]) -> Recording:
    """One transaction for all; if that fails for another reason than the moment, one for each.

    Errors: `TRANSIENT_ERRORS`; what was written before stays, and a repeat does no harm.
    """
    try:
        recording = _write(records)
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  one bad outcome must not hold up the others
        _logger.warning("a batch of %d outcomes failed: %s", len(records), type(error).__name__)
        recording = _write_singly(records)
    metrics.RECORDED.inc(len(recording.new))
    metrics.REPEATED.inc(len(recording.repeated))
    return recording


def request_record_or_raise(record: Record) -> Recording:
    """One record, for a replay: the caller hears why it fails."""
    return _write([record])


def newest_states(states: Iterable[AccountState]) -> tuple[AccountState, ...]:
    """One for each account."""
    newest: dict[int, AccountState] = {}
    for state in states:
        if state.account_id not in newest or newest[state.account_id].seq < state.seq:
            newest[state.account_id] = state
    return tuple(newest.values())


def _write(records: Sequence[Record]) -> Recording:
    if not records:
        return Recording()
    rows = [rows_of(record) for record in records]
    booking = requests_book(rows)
    ids = {_id_of(record): one.request.pk for record, one in zip(records, rows, strict=True)}
    new = frozenset(request_id for request_id, key in ids.items() if key in booking.written)
    return Recording(new=new, repeated=frozenset(ids) - new, accounts=booking.accounts)


def _write_singly(records: Sequence[Record]) -> Recording:
    recording = Recording()
    for record in records:
        recording |= _write_or_keep(record)
    return recording


def _write_or_keep(record: Record) -> Recording:
    try:
        return _write([record])
    except TRANSIENT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  kept as a DeadOutcome, with its class
        is_kept = dead_outcome_keep(
            request_id=_id_of(record), payload=_payload_of(record), error_class=type(error).__name__
        )
        return Recording(dead=frozenset({_id_of(record)} if is_kept else ()))


def _id_of(record: Record) -> str:
    return (record.outcome if isinstance(record, Settlement) else record.draft).request_id


def _payload_of(record: Record) -> bytes:
    return settlement_encode(record) if isinstance(record, Settlement) else open_record_encode(record)
