"""Balances and the entries that explain them: read, topped up, corrected and refunded, never edited."""

from typing import Any, TypeVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import EmptyFieldListFilter
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display

from billing.admin.base import RecordAdmin
from billing.admin.money_forms import MoneyForm, MoneyPages, TenantForm
from billing.core.money import usd_text
from billing.models import Account, EntryKind, LedgerDrift, LedgerEntry
from billing.selectors.ledger_search import entries_named
from billing.services.ledger import (
    Posting,
    account_correct,
    account_make,
    account_refund,
    account_top_up,
    refundable_nano,
)
from channels_admin.middleware import is_key_of

_Row = TypeVar("_Row", bound=Model)
_KIND_LABELS = {
    EntryKind.OPENING.value: "info",
    EntryKind.TOP_UP.value: "success",
    EntryKind.CHARGE.value: "primary",
    EntryKind.CORRECTION.value: "warning",
    EntryKind.REFUND.value: "warning",
}


@admin.register(Account)
class AccountAdmin(MoneyPages, RecordAdmin):
    list_display = ("tenant", "shown_balance", "account_seq", "entries_link")
    list_select_related = ("tenant",)
    ordering = ("tenant__name",)
    search_fields = ("tenant__name",)
    fields = ("tenant", "shown_balance", "account_seq", "created_at", "entries_link")
    readonly_fields = ("shown_balance", "entries_link")
    actions_detail = ("top_up", "correct")
    actions_list = ("top_up_tenant",)

    def has_top_up_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:  # noqa: ARG002  unfold's signature
        return request.user.has_perm("billing.top_up_account")

    def has_correct_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:  # noqa: ARG002  unfold's signature
        return request.user.has_perm("billing.correct_account")

    @action(description=_("Top up a tenant"), url_path="top-up-tenant", permissions=["top_up"])
    def top_up_tenant(self, request: HttpRequest) -> HttpResponse:
        """A tenant has no account before its first entry: this makes it, and goes on to its page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = TenantForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            account = account_make(tenant_id=form.cleaned_data["tenant"].pk)
            return HttpResponseRedirect(reverse("admin:billing_account_top_up", args=(account.pk,)))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Top up a tenant"),
            "opts": Account._meta,  # noqa: SLF001  Django documents it as public
            "form": form,
            "back": reverse("admin:billing_account_changelist"),
        }
        return TemplateResponse(request, "billing/money_form.html", context)

    @action(description=_("Top up"), url_path="top-up", permissions=["top_up"])
    def top_up(self, request: HttpRequest, object_id: str) -> HttpResponse:
        account = _found(Account, object_id)

        def post(form: MoneyForm) -> Posting:
            return account_top_up(
                tenant_id=account.tenant_id,
                operation=str(form.cleaned_data["operation"]),
                amount_nano=form.amount_nano,
                reason=form.cleaned_data["reason"],
                actor=request.user.get_username(),
            )

        return self.money_page(
            request,
            account,
            title=_("Top up"),
            balance_nano=account.balance_nano,
            post=post,
        )

    @action(description=_("Correct balance"), url_path="correct", permissions=["correct"])
    def correct(self, request: HttpRequest, object_id: str) -> HttpResponse:
        account = _found(Account, object_id)

        def post(form: MoneyForm) -> Posting:
            return account_correct(
                tenant_id=account.tenant_id,
                operation=str(form.cleaned_data["operation"]),
                amount_nano=form.amount_nano,
                reason=form.cleaned_data["reason"],
                actor=request.user.get_username(),
            )

        return self.money_page(
            request,
            account,
            title=_("Correct balance"),
            balance_nano=account.balance_nano,
            post=post,
        )

    @display(description=_("balance (USD)"))
    def shown_balance(self, account: Account) -> str:
        return usd_text(account.balance_nano)

    @display(description=_("ledger"))
    def entries_link(self, account: Account) -> SafeString:
        address = reverse("admin:billing_ledgerentry_changelist")
        return format_html('<a href="{}?account__id__exact={}">{}</a>', address, account.pk, _("entries"))


@admin.register(LedgerEntry)
class LedgerEntryAdmin(MoneyPages, RecordAdmin):
    list_display = ("created_at", "tenant", "shown_kind", "shown_amount", "shown_balance", "source", "reason")
    list_filter = ("kind",)
    list_select_related = ("account__tenant",)
    ordering = ("-id",)
    search_fields = ("source",)
    search_help_text = _("A request id, an entry's whole source, or the exact name of a tenant.")
    fields = (
        "created_at",
        "tenant",
        "account_seq",
        "kind",
        "shown_amount",
        "shown_balance",
        "source",
        "request_id",
        "reason",
        "actor",
    )
    readonly_fields = ("tenant", "shown_amount", "shown_balance", "request_id")
    actions_detail = ("refund",)

    def has_refund_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:  # noqa: ARG002  unfold's signature
        return request.user.has_perm("billing.refund_request")

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """No button where there is no request to refund."""
        if not is_key_of(LedgerEntry, object_id):
            return []
        has_request = LedgerEntry.objects.filter(pk=object_id, request_id__isnull=False).exists()
        return list(super().get_actions_detail(request, object_id)) if has_request else []

    @action(description=_("Refund request"), url_path="refund", permissions=["refund"])
    def refund(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Of the request this entry belongs to."""
        entry = _found(LedgerEntry, object_id)
        request_id: UUID | None = entry.request_id
        if request_id is None:
            raise Http404

        def post(form: MoneyForm) -> Posting:
            return account_refund(
                request_id=request_id,
                operation=str(form.cleaned_data["operation"]),
                amount_nano=form.amount_nano,
                reason=form.cleaned_data["reason"],
                actor=request.user.get_username(),
            )

        return self.money_page(
            request,
            entry,
            title=_("Refund request"),
            balance_nano=entry.account.balance_nano,
            post=post,
            amount_first_nano=refundable_nano(request_id),
        )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The same order; within one account by the index that has it."""
        return ("-account_seq",) if request.GET.get("account__id__exact") else ("-id",)

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[LedgerEntry],
        search_term: str,
    ) -> tuple[QuerySet[LedgerEntry], bool]:
        """Look-ups that an index answers, instead of a search through text."""
        term = search_term.strip()
        return (entries_named(queryset, term) if term else queryset), False

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


@admin.register(LedgerDrift)
class LedgerDriftAdmin(RecordAdmin):
    """What the hourly check found. Rows resolve by themselves when a later check finds them right."""

    list_display = ("found_at", "kind", "place", "expected", "found", "seen_at", "resolved_at")
    list_filter = (("resolved_at", EmptyFieldListFilter), "kind")
    ordering = ("-id",)
    search_fields = ("place",)
    fields = ("kind", "place", "account", "expected", "found", "found_at", "seen_at", "resolved_at")


def _found(model: type[_Row], object_id: str) -> _Row:
    """Errors: Http404, for an id that is none, too."""
    if not is_key_of(model, object_id):
        raise Http404
    return get_object_or_404(model, pk=object_id)
