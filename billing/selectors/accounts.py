"""Balances as the admission store keeps them: one account, or those that changed lately."""

import datetime
from dataclasses import dataclass

from django.db.models.functions import Now

from billing.admission.open_record import AccountState
from billing.models import Account

OVERLAP_S = 10.0
"""An entry's time is older than its commit: what is asked for reaches back this far. States that were seen
before come again then, which does no harm."""


@dataclass(frozen=True, slots=True)
class NewerAccounts:
    """until: what the next call is asked with."""

    states: tuple[AccountState, ...]
    until: datetime.datetime | None


def account_state(tenant_id: int) -> AccountState:
    """A tenant without an account has 0; its first entry makes the account. One query by an index."""
    row = Account.objects.filter(tenant_id=tenant_id).values_list("balance_nano", "account_seq").first()
    return AccountState(tenant_id, *(row or (0, 0)))


def accounts_newer_than(since: datetime.datetime | None, *, overlap_s: float = OVERLAP_S) -> NewerAccounts:
    """Accounts with an entry since `since` less `overlap_s`; None = all accounts.

    One query by the index on `changed_at`, cheap enough for three a second: it reads what changed within the
    overlap, and nothing once the accounts are quiet.
    """
    rows = Account.objects.annotate(now=Now())
    if since is not None:
        rows = rows.filter(changed_at__gt=since - datetime.timedelta(seconds=overlap_s))
    found = list(rows.values_list("tenant_id", "balance_nano", "account_seq", "now"))
    states = tuple(AccountState(tenant, balance, seq) for tenant, balance, seq, _ in found)
    return NewerAccounts(states, found[-1][3] if found else since)
