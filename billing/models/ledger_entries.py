"""Every change of a balance. Append-only: database triggers refuse changes (`billing.ledger_guards`)."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class EntryKind(models.TextChoices):
    OPENING = "opening", _("opening balance")
    TOP_UP = "topup", _("top-up")
    CHARGE = "charge", _("charge")
    CORRECTION = "correction", _("correction")
    REFUND = "refund", _("refund")


class LedgerEntry(models.Model):
    """`source` says what caused the entry and exists once: `charge:<request>`,
    `correction:<request>:<reason>`, `correction:<operation>`, `topup:<operation>`, `opening:<tenant>`,
    `refund:<operation>`.

    `request_id` is set where the entry belongs to a relay request, which may be gone by now: charges, their
    corrections, refunds. Roll-ups sum the first two. `actor` is who posted it by hand, as text.

    Amounts are nano-dollars; a charge is negative. `account_seq` numbers an account's entries without gap.
    """

    account = models.ForeignKey(
        "billing.Account",
        verbose_name=_("account"),
        on_delete=models.PROTECT,
        related_name="entries",
        db_index=False,
    )
    account_seq = models.BigIntegerField(_("sequence number"))
    source = models.CharField(_("source"), max_length=200)
    kind = models.CharField(_("kind"), max_length=16, choices=EntryKind.choices)
    amount_nano = models.BigIntegerField(_("amount (nano-dollars)"))
    balance_after_nano = models.BigIntegerField(_("balance after (nano-dollars)"))
    request_id = models.UUIDField(_("request id"), null=True, editable=False)
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    actor = models.CharField(_("posted by"), max_length=150, blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    """The database's time: reports group by it."""

    class Meta:
        verbose_name = _("ledger entry")
        verbose_name_plural = _("ledger entries")
        ordering = ("account", "-account_seq")
        indexes = (
            models.Index("created_at", name="ledgerentry_by_time"),
            models.Index("request_id", condition=models.Q(kind="refund"), name="ledgerentry_refunds"),
            models.Index(
                "kind",
                models.F("id").desc(),
                condition=~models.Q(kind="charge"),
                name="ledgerentry_no_charges",
            ),
        )
        constraints = (
            # Not `unique=True`, which would bring a second index for patterns: nobody looks for a part of it.
            models.UniqueConstraint(fields=("source",), name="ledgerentry_source_once"),
            models.UniqueConstraint(fields=("account", "account_seq"), name="ledgerentry_seq_once"),
            models.CheckConstraint(
                condition=models.Q(kind__in=EntryKind.values), name="ledgerentry_known_kind"
            ),
        )

    def __str__(self) -> str:
        return self.source
