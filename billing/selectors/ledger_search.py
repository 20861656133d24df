"""Ledger entries by what people have in hand: a request's id, a source, a tenant's name."""

from uuid import UUID

from django.db.models import Q, QuerySet

from billing.models import Account, EntryKind, LedgerEntry
from billing.services.ledger_entries import charge_sources


def entries_named(rows: QuerySet[LedgerEntry], term: str) -> QuerySet[LedgerEntry]:
    """Of `rows`, newest first. Every look-up has an index; nothing looks through texts."""
    try:
        key = UUID(term)
    except ValueError:
        account_id = Account.objects.filter(tenant__name=term).values_list("pk", flat=True).first()
        if account_id is None:
            return rows.filter(source=term)
        return rows.filter(account=account_id).order_by("-account_seq")
    # Ids first: the planner might read the whole ledger backwards in search of one source.
    charged = Q(source__in=charge_sources(key))
    refunded = Q(kind=EntryKind.REFUND, request_id=key)
    return rows.filter(
        pk__in=list(LedgerEntry.objects.filter(charged | refunded).values_list("pk", flat=True))
    )
