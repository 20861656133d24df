"""What the hourly check of the ledger found wrong: shown to people, never repaired by code."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class DriftKind(models.TextChoices):
    CHAIN = "chain", _("an entry does not follow from the one before")
    BALANCE = "balance", _("the account is not what its last entry says")
    ROLLUP = "rollup", _("roll-ups differ from the ledger")


class LedgerDrift(models.Model):
    """place: where, one row for each open finding: `account 3 entry 17`, `2026-01-31 tenant 7 daily`.
    expected, found: numbers or nano-dollars, as text. resolved_at: when a later check found it right;
    null = it still stands. account: null for roll-ups of a tenant without one.
    """

    account = models.ForeignKey(
        "billing.Account", verbose_name=_("account"), null=True, on_delete=models.PROTECT, related_name="+"
    )
    kind = models.CharField(_("kind"), max_length=16, choices=DriftKind.choices)
    place = models.CharField(_("place"), max_length=64)
    expected = models.CharField(_("expected"), max_length=200)
    found = models.CharField(_("found"), max_length=200)
    found_at = models.DateTimeField(_("first found"), db_default=Now())
    seen_at = models.DateTimeField(_("last seen"), db_default=Now())
    resolved_at = models.DateTimeField(_("resolved"), null=True, editable=False)

    class Meta:
        verbose_name = _("ledger drift")
        verbose_name_plural = _("ledger drifts")
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("kind", "place"),
                condition=models.Q(resolved_at__isnull=True),
                name="ledgerdrift_open_once",
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=DriftKind.values), name="ledgerdrift_known_kind"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.place}"
