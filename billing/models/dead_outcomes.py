"""Outcomes that could not be written as rows: kept whole, shown to operators, replayed by hand."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class DeadOutcome(models.Model):
    """`payload` is an encoded `Settlement` or `OpenRecord` (`billing.outcome_codec`), or bytes that are none.

    `error_class` names the exception's class; its text may quote values and is not kept.
    """

    request_id = models.CharField(_("request id"), max_length=64, unique=True)
    payload = models.BinaryField(_("payload"))
    error_class = models.CharField(_("error class"), max_length=200)
    failed_at = models.DateTimeField(_("failed"), db_default=Now())
    failures = models.PositiveIntegerField(_("failures"), default=1)
    resolved_at = models.DateTimeField(_("resolved"), null=True, editable=False)
    """When a replay wrote the rows; null = still dead."""

    class Meta:
        verbose_name = _("dead outcome")
        verbose_name_plural = _("dead outcomes")
        ordering = ("-failed_at", "-id")
        indexes = (
            models.Index(
                "failed_at", condition=models.Q(resolved_at__isnull=True), name="deadoutcome_unresolved"
            ),
        )

    def __str__(self) -> str:
        return self.request_id
