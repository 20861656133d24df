"""Is the ledger what it says? Chains, balances, and the sums that reports read. Nothing is repaired here."""

import datetime
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

from django.db.models import Exists, F, OuterRef, Q, Subquery, Sum

from billing.core.chain import Link, Verdict, chain_verify
from billing.models import (
    Account,
    DriftKind,
    EntryKind,
    LedgerDrift,
    LedgerEntry,
    UsageDaily,
    UsageHourly,
    Watermark,
)
from billing.services.drifts import Finding, drifts_keep
from billing.services.ledger_entries import database_now

_WATERMARK = "rollups_verified"
_ACCOUNTS_MAX = 200
_DAYS_MAX = 31
_CLOSED_FOR = datetime.timedelta(hours=1)
"""A day is looked at when no transaction that began in it can be open any more."""
_DAY = datetime.timedelta(days=1)


def ledger_check(*, budget_s: float) -> int:
    """Checks what is new since the last run, and keeps what it finds; how many findings stand.

    When the time is up the rest is left to the next run. Errors: those of `django.db`.
    """
    deadline = time.monotonic() + budget_s
    drifts_keep(DriftKind.BALANCE, list(_balances_checked()), checked=None)
    for accounts in _unverified(deadline):
        findings = _chains_checked(accounts)
        drifts_keep(DriftKind.CHAIN, findings, checked=Q(account__in=[account.pk for account in accounts]))
    _rollups_check(deadline)
    return LedgerDrift.objects.filter(resolved_at__isnull=True).count()


def _balances_checked() -> Iterator[Finding]:
    """One statement over all accounts: each row against its last entry, as of one moment."""
    entries = LedgerEntry.objects.filter(account=OuterRef("pk"))
    last = entries.filter(account_seq=OuterRef("account_seq")).values("balance_after_nano")[:1]
    begun, unlike = Q(account_seq__gt=0), Q(last=None) | ~Q(balance_nano=F("last"))
    wrong = Account.objects.annotate(
        last=Subquery(last), has_more=Exists(entries.filter(account_seq__gt=OuterRef("account_seq")))
    ).filter(Q(has_more=True) | Q(account_seq=0) & ~Q(balance_nano=0) | begun & unlike)
    for account in wrong:
        where = "more entries" if account.has_more else f"entry {account.account_seq}: balance {account.last}"
        yield Finding(
            kind=DriftKind.BALANCE,
            place=f"account {account.pk}",
            expected=where,
            found=f"entry {account.account_seq}: balance {account.balance_nano}",
            account_id=account.pk,
        )


def _unverified(deadline: float) -> Iterator[list[Account]]:
    """Accounts with entries nobody verified yet, some at a time."""
    last = 0
    rows = Account.objects.filter(account_seq__gt=F("verified_seq")).order_by("pk")
    while time.monotonic() < deadline and (chunk := list(rows.filter(pk__gt=last)[:_ACCOUNTS_MAX])):
        last = chunk[-1].pk
        yield chunk


def _chains_checked(accounts: Sequence[Account]) -> list[Finding]:
    """Reads each account's entries from its last verified one on, and notes how far they hold."""
    findings: list[Finding] = []
    verdicts = _verdicts(accounts)
    for account in accounts:
        verdict = verdicts[account.pk]
        if verdict.verified_seq != account.verified_seq:
            Account.objects.filter(pk=account.pk).update(verified_seq=verdict.verified_seq)
        if verdict.fault is not None:
            findings.append(
                Finding(
                    kind=DriftKind.CHAIN,
                    place=f"account {account.pk} entry {verdict.fault.seq}",
                    expected=verdict.fault.expected,
                    found=verdict.fault.found,
                    account_id=account.pk,
                )
            )
    return findings


def _verdicts(accounts: Sequence[Account]) -> dict[int, Verdict]:
    anchors = {account.pk: account.verified_seq for account in accounts}
    rows = (
        LedgerEntry.objects.filter(account__in=anchors, account_seq__gte=F("account__verified_seq"))
        .order_by("account_id", "account_seq")
        .values_list("account_id", "account_seq", "amount_nano", "balance_after_nano")
    )
    verdicts = {
        account_id: chain_verify(anchors[account_id], (Link(*row[1:]) for row in group))
        for account_id, group in itertools.groupby(rows.iterator(), key=lambda row: row[0])
    }
    return {
        account_id: verdicts.get(account_id) or chain_verify(seq, ()) for account_id, seq in anchors.items()
    }


def _rollups_check(deadline: float) -> None:
    for day in _days():
        if time.monotonic() > deadline:
            return
        drifts_keep(DriftKind.ROLLUP, list(_day_checked(day)), checked=Q(place__startswith=str(day)))
        begin = _begin(day) + _DAY
        if (mark := _verified_until()) is None or mark < begin:
            Watermark.objects.update_or_create(name=_WATERMARK, defaults={"moment": begin})


def _days() -> list[datetime.date]:
    """Closed days: those nobody looked at, the last one that somebody did, and those found wrong."""
    closed = (database_now() - _CLOSED_FOR).date()
    first = (
        _verified_until()
        or LedgerEntry.objects.order_by("created_at").values_list("created_at", flat=True).first()
    )
    if first is None:
        return []
    begin = first.date() - _DAY
    new = [begin + _DAY * number for number in range(_DAYS_MAX) if begin + _DAY * number < closed]
    standing = LedgerDrift.objects.filter(kind=DriftKind.ROLLUP, resolved_at=None).values_list(
        "place", flat=True
    )
    return sorted({*new, *(datetime.date.fromisoformat(place[:10]) for place in standing)})


def _day_checked(day: datetime.date) -> Iterator[Finding]:
    begin = _begin(day)
    charged = _by_tenant_of_ledger(begin)
    tables = {
        "daily": UsageDaily.objects.filter(day=day),
        "hourly": UsageHourly.objects.filter(hour__gte=begin, hour__lt=begin + _DAY),
    }
    accounts = dict(Account.objects.values_list("tenant_id", "pk"))
    for name, rows in tables.items():
        sums = rows.values_list("tenant_id").annotate(sum=Sum("charged_nano")).order_by()
        found = {tenant_id: int(total) for tenant_id, total in sums}
        for tenant_id in sorted(charged.keys() | found.keys()):
            expected, total = charged.get(tenant_id, 0), found.get(tenant_id, 0)
            if expected != total:
                yield Finding(
                    kind=DriftKind.ROLLUP,
                    place=f"{day} tenant {tenant_id} {name}",
                    expected=str(expected),
                    found=str(total),
                    account_id=accounts.get(tenant_id),
                )


def _by_tenant_of_ledger(begin: datetime.datetime) -> Mapping[int, int]:
    """Charges and the corrections of requests, as roll-ups count them."""
    counted = Q(kind=EntryKind.CHARGE) | Q(kind=EntryKind.CORRECTION, request_id__isnull=False)
    entries = LedgerEntry.objects.filter(counted, created_at__gte=begin, created_at__lt=begin + _DAY)
    sums = entries.values_list("account__tenant_id").annotate(sum=Sum("amount_nano")).order_by()
    return {tenant_id: -int(total) for tenant_id, total in sums}


def _verified_until() -> datetime.datetime | None:
    return Watermark.objects.filter(name=_WATERMARK).values_list("moment", flat=True).first()


def _begin(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
