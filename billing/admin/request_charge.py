"""“Why this amount?” on a request's page: the formula with its numbers, and the ledger's entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.admin.price_preview import cost_context
from billing.core.money import usd_text
from billing.models import LedgerEntry, RelayRequest
from billing.selectors.explained_charges import ExplainedCharge, entries_of, explained_charge
from billing.services.ledger_entries import LATER_USAGE


@dataclass(frozen=True, slots=True)
class EntryLine:
    created_at: datetime
    kind: str
    amount: str
    reason: str
    url: str


def charge_context(row: RelayRequest, request: HttpRequest) -> Mapping[str, Any]:
    """Entries and prices are shown to whom their own pages are open."""
    may_see_prices = request.user.has_perm("billing.view_price")
    may_see_entries = request.user.has_perm("billing.view_ledgerentry")
    explained = explained_charge(row)
    return {
        "charged": None if row.cost_nano is None else usd_text(row.cost_nano),
        "charge_reason": charge_reason(row, explained),
        "cost": cost_context(explained.cost) if explained.cost is not None and may_see_prices else None,
        "is_same": explained.is_same,
        "price_url": _price_url(explained) if may_see_prices else None,
        "price_name": explained.price.model if explained.price else "",
        "may_see_entries": may_see_entries,
        "entries": [_line(entry) for entry in entries_of(row)] if may_see_entries else [],
    }


def charge_reason(row: RelayRequest, explained: ExplainedCharge) -> str | Promise:
    """In a sentence, before the numbers."""
    if explained.charged_nano is None:
        return _("Nothing is booked for this request yet.")
    if explained.price is None:
        return _("No price was in force for this model when the request was admitted: it is free.")
    if explained.cost is None:
        return _("Nothing was answered and nothing was used: not even the call is charged.")
    if _usage_method(row) == LATER_USAGE:
        return _("What the upstream told afterwards. It was estimated first, and the difference corrected.")
    if row.estimated:
        return _("The upstream did not report the whole usage: the rest was counted from what arrived.")
    return _("What the upstream reported, at the price that was in force when the request was admitted.")


def _usage_method(row: RelayRequest) -> str:
    try:
        return row.usage.method
    except ObjectDoesNotExist:
        return ""


def _price_url(explained: ExplainedCharge) -> str | None:
    if explained.price is None:
        return None
    return reverse("admin:billing_price_change", args=[explained.price.id])


def _line(entry: LedgerEntry) -> EntryLine:
    return EntryLine(
        created_at=entry.created_at,
        kind=entry.get_kind_display(),
        amount=usd_text(entry.amount_nano),
        reason=entry.reason,
        url=reverse("admin:billing_ledgerentry_change", args=[entry.pk]),
    )
