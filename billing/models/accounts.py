"""A tenant's money: the balance, kept beside the ledger that explains it."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Account(models.Model):
    """`balance_nano` is nano-dollars and equals the last entry's `balance_after_nano`.

    `account_seq` is the number of that entry, 0 for none. Both change only in
    `billing.services.ledger`, under this row's lock.
    """

    tenant = models.OneToOneField(
        "channels_admin.Tenant", verbose_name=_("tenant"), on_delete=models.PROTECT, related_name="account"
    )
    balance_nano = models.BigIntegerField(_("balance (nano-dollars)"), default=0)
    account_seq = models.BigIntegerField(_("sequence number"), default=0)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")

    def __str__(self) -> str:
        return f"account of {self.tenant}"
