"""Money that people move: opening balances, top-ups, corrections, refunds. Each once for its source.

An operation id is chosen by the caller, once for what is meant to happen once: a repeat with the same id
posts nothing, and one that means something else is refused.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext_lazy as _

from billing.core.money import nano_from_usd, usd_text
from billing.models import Account, EntryKind, LedgerEntry
from billing.services.account_states import account_states_publish
from billing.services.ledger_entries import (
    EntryDraft,
    LockedAccounts,
    accounts_lock,
    charge_sources,
    entries_post,
)
from channels_admin.models import Tenant

AMOUNT_MAX_NANO = 10**16
"""10 million USD by hand at once: more is a mistake."""
_OPERATION = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REASON_MAX = 200
_ACTOR_MAX = 150


@dataclass(frozen=True, slots=True)
class AccountOpening:
    """posted: this call wrote the opening entry. warning: the caller should show it; empty for none."""

    account: Account
    posted: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Posting:
    """posted: by this call; False = the same operation was posted before."""

    entry: LedgerEntry
    posted: bool


def account_open(*, tenant: Tenant, balance_usd: Decimal) -> AccountOpening:
    """The tenant's account with its opening entry, made once; 0 is an opening balance, too.

    A repeat with another amount changes nothing and comes back as a warning: money moves by entries, not
    by configuration. Errors: ValueError for an amount that is not finite, or out of range.
    """
    amount_nano = nano_from_usd(balance_usd)
    draft = EntryDraft(
        tenant_id=tenant.pk,
        kind=EntryKind.OPENING,
        source=f"opening:{tenant.pk}",
        amount_nano=amount_nano,
        reason="opening balance",
    )
    with transaction.atomic():
        locked = accounts_lock([tenant.pk])
        account = locked.by_tenant[tenant.pk]
        posting = _post_once(locked, draft)
        account_states_publish(locked.states())
    if posting.entry.amount_nano == amount_nano:
        return AccountOpening(account, posted=posting.posted)
    return AccountOpening(account, posted=False, warning=_changed(tenant, posting.entry, amount_nano))


def account_make(*, tenant_id: int) -> Account:
    """The tenant's account, without an entry if it is new."""
    with transaction.atomic():
        return accounts_lock([tenant_id]).by_tenant[tenant_id]


def account_top_up(*, tenant_id: int, operation: str, amount_nano: int, reason: str, actor: str) -> Posting:
    """Adds money.

    Errors: ValidationError (amount not above 0 or out of range, no reason, another operation's id).
    """
    if amount_nano <= 0:
        raise ValidationError(_("The amount must be above 0."))
    return _post_by_hand(
        EntryDraft(
            tenant_id=tenant_id,
            kind=EntryKind.TOP_UP,
            source=f"topup:{_checked(operation)}",
            amount_nano=amount_nano,
            reason=_reason(reason),
            actor=_bounded(actor),
        )
    )


def account_correct(*, tenant_id: int, operation: str, amount_nano: int, reason: str, actor: str) -> Posting:
    """Adds to the balance or takes from it, whatever it is. Errors: as `account_top_up`, for 0."""
    if amount_nano == 0:
        raise ValidationError(_("The amount must not be 0."))
    return _post_by_hand(
        EntryDraft(
            tenant_id=tenant_id,
            kind=EntryKind.CORRECTION,
            source=f"correction:{_checked(operation)}",
            amount_nano=amount_nano,
            reason=_reason(reason),
            actor=_bounded(actor),
        )
    )


def account_refund(
    *, request_id: UUID, operation: str, reason: str, actor: str, amount_nano: int | None = None
) -> Posting:
    """Gives back what a request was charged, or a part of it; None = all that is left.

    All refunds of a request together are at most what was charged, corrections included. Errors:
    ValidationError (no such charge, more than is left, as `account_top_up`).
    """
    charge = LedgerEntry.objects.select_related("account").filter(source=f"charge:{request_id}").first()
    if charge is None:
        raise ValidationError(_("This request was never charged."))
    source = f"refund:{_checked(operation)}"
    tenant_id = charge.account.tenant_id
    with transaction.atomic():
        locked = accounts_lock([tenant_id])
        before = LedgerEntry.objects.filter(source=source).first()
        left_nano = refundable_nano(request_id)
        wanted = amount_nano if amount_nano is not None else (before.amount_nano if before else left_nano)
        if before is None and not 0 < wanted <= left_nano:
            raise ValidationError(
                _("At most %(left)s USD can be refunded."), params={"left": usd_text(max(0, left_nano))}
            )
        draft = EntryDraft(
            tenant_id=tenant_id,
            kind=EntryKind.REFUND,
            source=source,
            amount_nano=wanted,
            request_id=request_id,
            reason=_reason(reason),
            actor=_bounded(actor),
        )
        return _posted_as_meant(locked, draft)


def refundable_nano(request_id: UUID) -> int:
    """What was charged for a request, less its refunds. A few look-ups by an index."""
    entries = LedgerEntry.objects.filter(source__in=charge_sources(request_id))
    charged = entries.aggregate(sum=Sum("amount_nano"))["sum"] or 0
    refunds = LedgerEntry.objects.filter(kind=EntryKind.REFUND, request_id=request_id)
    return -int(charged) - int(refunds.aggregate(sum=Sum("amount_nano"))["sum"] or 0)


def _post_by_hand(draft: EntryDraft) -> Posting:
    if abs(draft.amount_nano) > AMOUNT_MAX_NANO:
        raise ValidationError(_("At most %(most)s USD at once."), params={"most": usd_text(AMOUNT_MAX_NANO)})
    with transaction.atomic():
        return _posted_as_meant(accounts_lock([draft.tenant_id]), draft)


def _posted_as_meant(locked: LockedAccounts, draft: EntryDraft) -> Posting:
    posting = _post_once(locked, draft)
    entry = posting.entry
    is_meant = (entry.account.tenant_id, entry.amount_nano, entry.request_id) == (
        draft.tenant_id,
        draft.amount_nano,
        draft.request_id,
    )
    if not is_meant:
        raise ValidationError(_("This operation id was used for something else."))
    account_states_publish(locked.states())
    return posting


def _post_once(locked: LockedAccounts, draft: EntryDraft) -> Posting:
    """Under the account's lock.

    Another account's entry of this source, posted in this very moment, makes the insert fail: the same
    operation for two accounts is nothing that may work.
    """
    entries = LedgerEntry.objects.select_related("account").filter(source=draft.source)
    if (before := entries.first()) is not None:
        return Posting(before, posted=False)
    entries_post(locked, [draft])
    return Posting(entries.get(), posted=True)


def _checked(operation: str) -> str:
    if not _OPERATION.fullmatch(operation):
        raise ValidationError(_("An operation id has 1 to 64 letters, digits, dots, dashes or underscores."))
    return operation


def _bounded(actor: str) -> str:
    return actor.replace("\x00", "")[:_ACTOR_MAX]


def _reason(reason: str) -> str:
    text = reason.replace("\x00", "").strip()
    if not text:
        raise ValidationError(_("A reason is needed."))
    if len(text) > _REASON_MAX:
        raise ValidationError(_("A reason has at most %(most)d characters."), params={"most": _REASON_MAX})
    return text


def _changed(tenant: Tenant, opening: LedgerEntry, asked_nano: int) -> str:
    from_usd, to_usd = usd_text(opening.amount_nano), usd_text(asked_nano)
    return (
        f"tenant {tenant.name}: the opening balance was posted as {from_usd} USD and is not changed to "
        f"{to_usd} USD; post a top-up instead"
    )
