"""A tenant's money: the balance, kept beside the ledger that explains it."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Account(models.Model):
    """`balance_nano` is nano-dollars and equals the last entry's `balance_after_nano`.

    `account_seq` is the number of that entry, 0 for none. Both change only in
    `billing.services.ledger_entries`, under this row's lock.
    """

    tenant = models.OneToOneField(
        "channels_admin.Tenant", verbose_name=_("tenant"), on_delete=models.PROTECT, related_name="account"
    )
    balance_nano = models.BigIntegerField(_("balance (nano-dollars)"), default=0)
    account_seq = models.BigIntegerField(_("sequence number"), default=0)
    changed_at = models.DateTimeField(_("changed"), db_default=Now(), db_index=True)
    """The database's time of the last entry: who keeps balances elsewhere asks for the newer ones."""
    verified_seq = models.BigIntegerField(_("verified up to"), default=0, editable=False)
    """The chain of entries was found unbroken up to this one."""
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        permissions = (
            ("top_up_account", _("Can top up accounts")),
            ("correct_account", _("Can correct balances")),
            ("refund_request", _("Can refund requests")),
        )

    def __str__(self) -> str:
        return f"account of {self.tenant}"
