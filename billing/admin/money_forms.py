"""Moving money by hand: a form, a page that asks once more, then the service, then the log.

The operation id is made with the form and travels with it: sent twice, the money moves once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminTextInputWidget

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

from billing.core.money import nano_from_usd, usd_text
from billing.services.ledger import Posting
from channels_admin.models import Tenant

Post = Callable[["MoneyForm"], Posting]


class MoneyForm(forms.Form):
    amount = forms.DecimalField(
        label=_("amount (USD)"), max_digits=17, decimal_places=9, widget=UnfoldAdminDecimalFieldWidget()
    )
    reason = forms.CharField(label=_("reason"), max_length=200, widget=UnfoldAdminTextInputWidget())
    operation = forms.UUIDField(widget=forms.HiddenInput())

    @property
    def amount_nano(self) -> int:
        return nano_from_usd(self.cleaned_data["amount"])


class TenantForm(forms.Form):
    """Which tenant; a name is enough for staff who may not list tenants."""

    tenant = forms.CharField(
        label=_("tenant's exact name"), max_length=200, widget=UnfoldAdminTextInputWidget()
    )

    def clean_tenant(self) -> Tenant:
        tenant = Tenant.objects.filter(name=self.cleaned_data["tenant"]).first()
        if tenant is None:
            raise ValidationError(_("There is no such tenant."))
        return tenant


class MoneyPages:
    """Mixed into an admin class: one view for all that moves money. No page for who may not do it."""

    def money_page(
        self,
        request: HttpRequest,
        row: Model,
        *,
        title: StrPromise,
        balance_nano: int,
        post: Post,
        amount_first_nano: int | None = None,
    ) -> HttpResponse:
        """For an action that has asked for its own permission.

        balance_nano: shown before and after. post: calls the service. amount_first_nano: what the form
        begins with.
        """
        admin: Any = self
        if not admin.has_view_permission(request, row):
            raise PermissionDenied
        form = _form(request, amount_first_nano)
        is_sent = request.method == "POST" and form.is_valid()
        if is_sent and request.POST.get("confirmed"):
            try:
                posting = post(form)
            except ValidationError as error:
                form.add_error(None, error)
                is_sent = False
            else:
                return _done(admin, request, row, posting, title)
        context = {
            **admin.admin_site.each_context(request),
            "title": title,
            "opts": row._meta,  # noqa: SLF001  Django documents it as public
            "row": row,
            "form": form,
            "is_asking": is_sent,
            "balance": usd_text(balance_nano),
            "balance_after": usd_text(balance_nano + form.amount_nano) if is_sent else "",
        }
        return TemplateResponse(request, "billing/money_form.html", context)


def _form(request: HttpRequest, amount_first_nano: int | None) -> MoneyForm:
    if request.method == "POST":
        return MoneyForm(request.POST)
    first = {} if amount_first_nano is None else {"amount": Decimal(usd_text(amount_first_nano))}
    return MoneyForm(initial={"operation": uuid.uuid4(), **first})


def _done(admin: Any, request: HttpRequest, row: Model, posting: Posting, title: StrPromise) -> HttpResponse:
    amount = usd_text(posting.entry.amount_nano)
    if posting.posted:
        text = _("%(title)s: %(amount)s USD (%(source)s)")
        told = text % {"title": title, "amount": amount, "source": posting.entry.source}
        admin.log_change(request, row, told)
        messages.success(request, told)
    else:
        messages.warning(request, _("This was posted before; nothing was posted again."))
    return HttpResponseRedirect("../change/")
