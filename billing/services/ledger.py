"""The only place where balances change: an entry and its account, together, under the account's lock."""

from dataclasses import dataclass
from decimal import Decimal

from django.db import transaction

from billing.core.money import nano_from_usd, usd_text
from billing.models import Account, EntryKind, LedgerEntry
from channels_admin.models import Tenant


@dataclass(frozen=True, slots=True)
class AccountOpening:
    """posted: this call wrote the opening entry. warning: the caller should show it; empty for none."""

    account: Account
    posted: bool
    warning: str = ""


def account_open(*, tenant: Tenant, balance_usd: Decimal) -> AccountOpening:
    """The tenant's account with its opening entry, made once; 0 is an opening balance, too.

    A repeat with another amount changes nothing and comes back as a warning: money moves by entries, not
    by configuration. Errors: ValueError for an amount that is not finite.
    """
    amount_nano = nano_from_usd(balance_usd)
    with transaction.atomic():
        Account.objects.get_or_create(tenant=tenant)
        account = Account.objects.select_for_update().get(tenant=tenant)
        source = f"opening:{tenant.pk}"
        opening = LedgerEntry.objects.filter(source=source).first()
        if opening is None:
            entry_post(
                account=account,
                kind=EntryKind.OPENING,
                source=source,
                amount_nano=amount_nano,
                reason="opening balance",
            )
            return AccountOpening(account, posted=True)
    if opening.amount_nano == amount_nano:
        return AccountOpening(account, posted=False)
    return AccountOpening(account, posted=False, warning=_changed(tenant, opening, amount_nano))


def entry_post(
    *, account: Account, kind: EntryKind, source: str, amount_nano: int, reason: str = ""
) -> LedgerEntry:
    """Append one entry. `account` was read with `select_for_update` in the caller's transaction.

    Errors: `IntegrityError` when `source` was posted before; the caller's transaction is over then.
    """
    account.account_seq += 1
    account.balance_nano += amount_nano
    entry = LedgerEntry.objects.create(
        account=account,
        account_seq=account.account_seq,
        source=source,
        kind=kind,
        amount_nano=amount_nano,
        balance_after_nano=account.balance_nano,
        reason=reason,
    )
    account.save(update_fields=["account_seq", "balance_nano"])
    return entry


def _changed(tenant: Tenant, opening: LedgerEntry, asked_nano: int) -> str:
    from_usd, to_usd = usd_text(opening.amount_nano), usd_text(asked_nano)
    return (
        f"tenant {tenant.name}: the opening balance was posted as {from_usd} USD and is not changed to "
        f"{to_usd} USD; post a top-up instead"
    )
