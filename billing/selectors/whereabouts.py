"""Where a relay request is: in the store, its mirror, the rows, the ledger, kept as dead, in a spool.

For people on call. Ids, states, times and amounts only.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from billing.admission import OpenState, StoreUnavailable, open_records
from billing.admission.mirror import mirrored_record
from billing.admission.open_record import Settlement
from billing.core.money import usd_text
from billing.models import (
    Attempt,
    DeadOutcome,
    LedgerEntry,
    LookupState,
    OpenRecordRow,
    RelayRequest,
    UsageLookup,
)
from billing.outcome_codec import UnreadableOutcome, record_decode
from billing.services.ledger import refundable_nano
from billing.services.ledger_entries import charge_sources
from billing.spool import spool_holders

_UPSTREAM_IDS_MAX = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """place: `store`, `mirror`, `row`, `usage look-up`, `ledger`, `dead outcome` or `spool`."""

    place: str
    text: str


def request_ids_of(text: str) -> list[str]:
    """Of our own id in any spelling, or of an upstream's id. Empty: nobody knows it."""
    try:
        return [str(uuid.UUID(text))]
    except ValueError:
        attempts = Attempt.objects.filter(upstream_request_id=text) if text else Attempt.objects.none()
        return [str(key) for key in attempts.values_list("request_id", flat=True)[:_UPSTREAM_IDS_MAX]]


def whereabouts(request_id: str) -> list[Finding]:
    """Everything that is known; a store that does not answer says so. Errors: those of `django.db`."""
    return [
        *_in_store(request_id),
        *_in_rows(request_id),
        *_asked_later(request_id),
        *_in_ledger(request_id),
        *_dead(request_id),
        *(Finding("spool", name) for name in spool_holders(Path(settings.DATA_DIR), request_id)),
    ]


def _in_store(request_id: str) -> Iterator[Finding]:
    if not settings.REDIS_URL:  # it lives in the serving process; this one sees its mirror
        for row in OpenRecordRow.objects.filter(request_id=request_id):
            mirrored = mirrored_record(row)
            payload = bytes(row.payload) if mirrored is None else mirrored.payload
            yield Finding("mirror", f"{row.state}, {_payload_text(payload)}")
        return
    try:
        record = open_records().state(request_id)
    except StoreUnavailable as error:
        yield Finding("store", f"does not answer ({error})")
        return
    if record is not None:
        epoch = f", process epoch {record.epoch}" if record.state is OpenState.RUNNING else ""
        yield Finding("store", f"{record.state}{epoch}, {_payload_text(record.payload)}")


def _payload_text(payload: bytes) -> str:
    try:
        record = record_decode(payload)
    except UnreadableOutcome as error:
        return f"{len(payload)} bytes that cannot be read ({error})"
    if isinstance(record, Settlement):
        outcome = record.outcome
        return f"{outcome.end_reason}, tenant {outcome.tenant_id}, charge {usd_text(record.amount_nano)} USD"
    return f"tenant {record.draft.tenant_id}, {usd_text(record.amount_nano)} USD so far"


def _in_rows(request_id: str) -> Iterator[Finding]:
    for row in RelayRequest.objects.filter(pk=request_id).select_related("tenant"):
        cost = "not charged" if row.cost_nano is None else f"{usd_text(row.cost_nano)} USD"
        attempts = row.attempts.count()
        yield Finding(
            "row",
            f"{row.state}, {row.end_reason}, status {row.status}, tenant {row.tenant}, {cost}, "
            f"attempts {attempts}, started {row.started_at:%Y-%m-%d %H:%M:%S}, "
            f"recorded {row.recorded_at:%Y-%m-%d %H:%M:%S} UTC",
        )


def _asked_later(request_id: str) -> Iterator[Finding]:
    for lookup in UsageLookup.objects.filter(pk=uuid.UUID(request_id)):
        yield Finding("usage look-up", lookup_text(lookup))


def lookup_text(lookup: UsageLookup) -> str:
    due = f", due {lookup.due_at:%Y-%m-%d %H:%M:%S} UTC" if lookup.state == LookupState.PENDING else ""
    told = f", last told {lookup.error_class}" if lookup.error_class else ""
    return f"{lookup.state}, tries {lookup.tries}{told}{due}, answer {lookup.answer_id}"


def _in_ledger(request_id: str) -> Iterator[Finding]:
    key = uuid.UUID(request_id)
    refunds = LedgerEntry.objects.filter(kind="refund", request_id=key)
    charge = LedgerEntry.objects.filter(source__in=charge_sources(key))
    for entry in (*charge.order_by("id"), *refunds.order_by("id")):
        yield Finding(
            "ledger",
            f"{entry.source}: {usd_text(entry.amount_nano)} USD, entry {entry.account_seq} of account "
            f"{entry.account_id}, {entry.created_at:%Y-%m-%d %H:%M:%S} UTC",
        )
    if refunds.exists():
        yield Finding("ledger", f"{usd_text(refundable_nano(key))} USD left to refund")


def _dead(request_id: str) -> Iterator[Finding]:
    for dead in DeadOutcome.objects.filter(request_id=request_id):
        state = f"resolved {dead.resolved_at:%Y-%m-%d %H:%M:%S} UTC" if dead.resolved_at else "not written"
        yield Finding(
            "dead outcome",
            f"{dead.error_class}, {dead.failures} failures, {state}, {_payload_text(bytes(dead.payload))}",
        )
