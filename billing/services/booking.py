"""One transaction that turns records into rows, charges and roll-ups."""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from billing.admission.open_record import AccountState
from billing.models import Account, Attempt, EntryKind, LedgerEntry, RelayRequest, RequestState, UsageRecord
from billing.services.guarded_insert import rows_insert, rows_insert_new
from billing.services.ledger_entries import (
    LATE_OUTCOME,
    EntryDraft,
    LockedAccounts,
    account_state_of,
    accounts_lock,
    charge_source,
    correction_source,
    entries_post,
)
from billing.services.outcome_rows import RequestRows
from billing.services.rollups import Share, rollups_add, share_of, share_of_correction
from billing.services.usage_lookups import usage_lookups_plan


@dataclass(frozen=True, slots=True)
class Booking:
    """Keys of the requests written now. accounts: of every tenant in the batch, as the commit leaves them."""

    written: frozenset[UUID] = frozenset()
    accounts: tuple[AccountState, ...] = ()


@dataclass(frozen=True, slots=True)
class _Late:
    """An abandoned request, its row locked, and the outcome that came after all."""

    was: RequestRows
    now: RequestRows
    charge: LedgerEntry

    @property
    def difference_nano(self) -> int:
        return (self.now.request.cost_nano or 0) + self.charge.amount_nano


def requests_book(batch: Sequence[RequestRows]) -> Booking:
    """Writes what is new, and what outranks an abandonment; the rest was written before.

    Errors: those of `django.db`; ValueError for an amount out of range or another tenant's request.
    """
    # In the order of their keys: two workers with the same records wait for each other, never in a ring.
    first = {one.request.pk: one for one in reversed(batch)}
    rows = {key: first[key] for key in sorted(first)}
    tenant_ids = {one.request.tenant_id for one in rows.values()}
    with transaction.atomic():
        new = rows_insert_new([one.request for one in rows.values()])
        fresh = [one for key, one in rows.items() if key in new]
        late = _late_of([one for key, one in rows.items() if key not in new])
        if not fresh and not late:
            return Booking(accounts=account_states_of(tenant_ids))
        _details_write(fresh, late)
        locked = accounts_lock({one.request.tenant_id for one in [*fresh, *(item.now for item in late)]})
        _charge(locked, fresh, late)
        states = (*locked.states(), *account_states_of(tenant_ids - locked.by_tenant.keys()))
    return Booking(new | {item.now.request.pk for item in late}, states)


def _details_write(fresh: Sequence[RequestRows], late: Sequence[_Late]) -> None:
    replaced = [item.now.request.pk for item in late]
    if replaced:
        Attempt.objects.filter(request_id__in=replaced).delete()
        UsageRecord.objects.filter(request_id__in=replaced).delete()
    written = [*fresh, *(item.now for item in late)]
    rows_insert([attempt for one in written for attempt in one.attempts])
    rows_insert([one.usage for one in written])
    usage_lookups_plan(written)


def _charge(locked: LockedAccounts, fresh: Sequence[RequestRows], late: Sequence[_Late]) -> None:
    """Entries, the rows that turned out otherwise, and roll-ups; all under the time of the lock."""
    entries_post(locked, [*(_charge_draft(one) for one in fresh), *(_late_draft(item) for item in late)])
    for item in late:
        item.now.request.recorded_at = locked.moment
        item.now.request.save(force_update=True)
    shares = [_share(one, locked.moment, one.request.cost_nano or 0) for one in fresh]
    shares += [share for item in late for share in _late_shares(item, locked.moment)]
    rollups_add(shares, now=locked.moment)


def _charge_draft(one: RequestRows) -> EntryDraft:
    return EntryDraft(
        tenant_id=one.request.tenant_id,
        kind=EntryKind.CHARGE,
        source=charge_source(one.request.pk),
        amount_nano=-(one.request.cost_nano or 0),
        request_id=one.request.pk,
    )


def _late_draft(item: _Late) -> EntryDraft:
    request = item.now.request
    return EntryDraft(
        tenant_id=request.tenant_id,
        kind=EntryKind.CORRECTION,
        source=correction_source(request.pk, LATE_OUTCOME),
        amount_nano=-item.difference_nano,
        request_id=request.pk,
        reason="the outcome came after the request was booked as abandoned",
    )


def _share(one: RequestRows, moment: datetime.datetime, charged_nano: int, sign: int = 1) -> Share:
    return share_of(one.request, one.usage, one.attempts, moment=moment, charged_nano=charged_nano, sign=sign)


def _late_shares(item: _Late, moment: datetime.datetime) -> tuple[Share, Share, Share]:
    """What was added is taken back and added anew at its own moment, with the money that was charged then;
    the difference is added now.
    """
    then, charged_nano = item.charge.created_at, -item.charge.amount_nano
    now = _share(item.now, then, charged_nano)
    correction = share_of_correction(now, moment=moment, charged_nano=item.difference_nano)
    return _share(item.was, then, charged_nano, sign=-1), now, correction


def _late_of(known: Sequence[RequestRows]) -> list[_Late]:
    """Of requests whose row exists: the outcomes whose row says abandoned. Those rows are locked then."""
    outcomes = {one.request.pk: one for one in known if one.request.state == RequestState.FINAL}
    if not outcomes:
        return []
    rows = (
        RelayRequest.objects.select_for_update(of=("self",), no_key=True)
        .filter(pk__in=outcomes, state=RequestState.ABANDONED)
        .order_by("pk")
    )
    return [_late(row, outcomes[row.pk]) for row in rows]


def _late(row: RelayRequest, now: RequestRows) -> _Late:
    if row.tenant_id != now.request.tenant_id:
        raise ValueError("another tenant's request")
    charge = LedgerEntry.objects.get(source=charge_source(row.pk))
    usage = UsageRecord.objects.get(request_id=row.pk)
    return _Late(RequestRows(row, tuple(Attempt.objects.filter(request_id=row.pk)), usage), now, charge)


def account_states_of(tenant_ids: Collection[int]) -> tuple[AccountState, ...]:
    """Of tenants that have an account, unlocked."""
    rows = Account.objects.filter(tenant_id__in=tenant_ids) if tenant_ids else ()
    return tuple(account_state_of(row) for row in rows)
