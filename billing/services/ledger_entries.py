"""The only place where balances change: entries and their accounts, together, under the accounts' locks.

Every writer takes the locks in the order of account ids, after any rows of its own and before it looks at
balances or roll-ups, so that two of them wait for each other, never in a ring.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from billing.admission.open_record import AccountState
from billing.models import Account, EntryKind, LedgerEntry
from billing.services.guarded_insert import rows_insert, rows_upsert

LATE_OUTCOME, LATER_USAGE = "late_outcome", "later_usage"
"""Why a request's charge is corrected by itself: each at most once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDraft:
    """An entry before it has its place in the chain. amount_nano: what is added to the balance."""

    tenant_id: int
    kind: EntryKind
    source: str
    amount_nano: int
    request_id: UUID | None = None
    reason: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class LockedAccounts:
    """Accounts by tenant id, locked until the transaction ends. moment: the database's time under the lock:
    all that is posted now gets it.
    """

    by_tenant: Mapping[int, Account]
    moment: datetime.datetime

    def states(self) -> tuple[AccountState, ...]:
        return tuple(account_state_of(account) for account in self.by_tenant.values())


def accounts_lock(tenant_ids: Collection[int]) -> LockedAccounts:
    """Locks the tenants' accounts in the caller's transaction, and makes those that are missing, with 0."""
    wanted = set(tenant_ids)
    known = set(Account.objects.filter(tenant_id__in=wanted).values_list("tenant_id", flat=True))
    if missing := sorted(wanted - known):
        # Before any lock is taken: waiting for another's insert with locks in hand could close a ring.
        Account.objects.bulk_create((Account(tenant_id=key) for key in missing), ignore_conflicts=True)
    rows = list(Account.objects.filter(tenant_id__in=wanted).select_for_update(no_key=True).order_by("id"))
    return LockedAccounts({row.tenant_id: row for row in rows}, database_now())


def entries_post(accounts: LockedAccounts, drafts: Sequence[EntryDraft]) -> None:
    """Appends the entries in their order, with two statements for any number of them.

    Errors: `IntegrityError` when a source was posted before; the caller's transaction is over then.
    """
    rows_insert([_next_entry(accounts, draft) for draft in drafts])
    _accounts_write({draft.tenant_id: accounts.by_tenant[draft.tenant_id] for draft in drafts}.values())


def charge_source(request_id: UUID) -> str:
    return f"charge:{request_id}"


def correction_source(request_id: UUID, reason: str) -> str:
    return f"correction:{request_id}:{reason}"


def charge_sources(request_id: UUID) -> tuple[str, ...]:
    """Of all entries that a request's charge can consist of."""
    corrections = (correction_source(request_id, reason) for reason in (LATE_OUTCOME, LATER_USAGE))
    return (charge_source(request_id), *corrections)


def account_state_of(account: Account) -> AccountState:
    """As the admission store keeps it, by tenant id."""
    return AccountState(account.tenant_id, account.balance_nano, account.account_seq)


def database_now() -> datetime.datetime:
    """The time of this statement, not of the transaction's begin, by the database's clock."""
    statement = "SELECT STATEMENT_TIMESTAMP()"
    if connection.vendor == "sqlite":
        statement = "SELECT STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"
    with connection.cursor() as cursor:
        cursor.execute(statement, [])
        value: str | datetime.datetime = cursor.fetchone()[0]
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
    return value.astimezone(datetime.UTC)


def _next_entry(accounts: LockedAccounts, draft: EntryDraft) -> LedgerEntry:
    account = accounts.by_tenant[draft.tenant_id]
    account.account_seq += 1
    account.balance_nano += draft.amount_nano
    account.changed_at = accounts.moment
    return LedgerEntry(
        account=account,
        account_seq=account.account_seq,
        source=draft.source,
        kind=draft.kind,
        amount_nano=draft.amount_nano,
        balance_after_nano=account.balance_nano,
        request_id=draft.request_id,
        reason=draft.reason,
        actor=draft.actor,
        created_at=accounts.moment,
    )


def _accounts_write(accounts: Iterable[Account]) -> None:
    """One statement: the rows exist and are locked, so every insert of it turns into an update."""
    rows_upsert(list(accounts), unique=("tenant_id",), update=("balance_nano", "account_seq", "changed_at"))
