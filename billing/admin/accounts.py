"""Balances and the entries that explain them, to read only."""

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from billing.admin.base import RecordAdmin
from billing.core.money import usd_text
from billing.models import Account, EntryKind, LedgerEntry

_KIND_LABELS = {
    EntryKind.OPENING.value: "info",
    EntryKind.TOP_UP.value: "success",
    EntryKind.CHARGE.value: "primary",
    EntryKind.CORRECTION.value: "warning",
    EntryKind.REFUND.value: "warning",
}


@admin.register(Account)
class AccountAdmin(RecordAdmin):
    list_display = ("tenant", "shown_balance", "account_seq", "entries_link")
    list_select_related = ("tenant",)
    ordering = ("tenant__name",)
    search_fields = ("tenant__name",)
    fields = ("tenant", "shown_balance", "account_seq", "created_at", "entries_link")
    readonly_fields = ("shown_balance", "entries_link")

    @display(description=_("balance (USD)"))
    def shown_balance(self, account: Account) -> str:
        return usd_text(account.balance_nano)

    @display(description=_("ledger"))
    def entries_link(self, account: Account) -> SafeString:
        address = reverse("admin:billing_ledgerentry_changelist")
        return format_html('<a href="{}?account__id__exact={}">{}</a>', address, account.pk, _("entries"))


@admin.register(LedgerEntry)
class LedgerEntryAdmin(RecordAdmin):
    list_display = ("created_at", "tenant", "shown_kind", "shown_amount", "shown_balance", "source", "reason")
    list_filter = ("kind",)
    list_select_related = ("account__tenant",)
    ordering = ("-id",)
    search_fields = ("source", "account__tenant__name")
    fields = (
        "created_at",
        "tenant",
        "account_seq",
        "kind",
        "shown_amount",
        "shown_balance",
        "source",
        "reason",
    )
    readonly_fields = ("tenant", "shown_amount", "shown_balance")

    def lookup_allowed(self, lookup: str, value: str, request: object = None) -> bool:
        return lookup == "account__id__exact" or bool(super().lookup_allowed(lookup, value, request))

    @display(description=_("tenant"))
    def tenant(self, entry: LedgerEntry) -> str:
        return str(entry.account.tenant)

    @display(description=_("kind"), label=_KIND_LABELS)
    def shown_kind(self, entry: LedgerEntry) -> tuple[str, str]:
        return entry.kind, entry.get_kind_display()

    @display(description=_("amount (USD)"))
    def shown_amount(self, entry: LedgerEntry) -> str:
        return usd_text(entry.amount_nano)

    @display(description=_("balance after (USD)"))
    def shown_balance(self, entry: LedgerEntry) -> str:
        return usd_text(entry.balance_after_nano)
