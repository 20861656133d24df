"""Sums that reports read, written in the transaction that posts the charge, under the entry's database time.

So the sum of `charged_nano` over all rows equals the sum of charges and their corrections in the ledger.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

FIRST_EVENT_BOUNDS_MS = (50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 30_000, 60_000)
"""Upper bounds of the histogram of first-event times; one more bucket holds the rest."""


class UsageFigures(models.Model):
    """What is added up, here and in `billing.models.usage_slices`."""

    requests = models.PositiveBigIntegerField(_("requests"), default=0)
    successes = models.PositiveBigIntegerField(_("successes"), default=0)
    incomplete = models.PositiveBigIntegerField(_("incomplete"), default=0)
    """Answers that began and broke off."""
    estimated = models.PositiveBigIntegerField(_("estimated"), default=0)
    possible_duplicates = models.PositiveBigIntegerField(_("possible duplicate charges"), default=0)
    input = models.PositiveBigIntegerField(_("input tokens"), default=0)
    cached_input = models.PositiveBigIntegerField(_("cached input tokens"), default=0)
    cache_write = models.PositiveBigIntegerField(_("cache write tokens"), default=0)
    output = models.PositiveBigIntegerField(_("output tokens"), default=0)
    reasoning = models.PositiveBigIntegerField(_("reasoning tokens"), default=0)
    images = models.PositiveBigIntegerField(_("images"), default=0)
    charged_nano = models.BigIntegerField(_("charged (nano-dollars)"), default=0)
    operator_cost_nano = models.BigIntegerField(_("operator cost (nano-dollars)"), default=0)

    class Meta:
        abstract = True


class UsageRollup(UsageFigures):
    """One row a bucket of time, tenant, API key, model asked and channel (of the attempt that answered, or
    that was tried last; 0 = none).

    first_event_histogram: counts for each of `FIRST_EVENT_BOUNDS_MS`, and one more; a JSON list.
    """

    tenant_id = models.BigIntegerField(_("tenant"))
    api_key_id = models.BigIntegerField(_("API key"))
    model = models.CharField(_("model"), max_length=200)
    channel_id = models.BigIntegerField(_("channel"))
    first_event_histogram = models.JSONField(_("first-event times"), default=list)

    class Meta:
        abstract = True


class UsageHourly(UsageRollup):
    hour = models.DateTimeField(_("hour"))

    class Meta:
        verbose_name = _("usage by hour")
        verbose_name_plural = _("usage by hour")
        constraints = (
            models.UniqueConstraint(
                fields=("hour", "tenant_id", "api_key_id", "model", "channel_id"), name="usagehourly_one_row"
            ),
        )
        indexes = (models.Index("tenant_id", "hour", name="usagehourly_by_tenant"),)

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} h"


class UsageDaily(UsageRollup):
    day = models.DateField(_("day"))
    """In UTC."""

    class Meta:
        verbose_name = _("usage by day")
        verbose_name_plural = _("usage reports")
        permissions = (("view_usage_reports", _("Can view usage reports")),)
        constraints = (
            models.UniqueConstraint(
                fields=("day", "tenant_id", "api_key_id", "model", "channel_id"), name="usagedaily_one_row"
            ),
        )
        indexes = (models.Index("tenant_id", "day", name="usagedaily_by_tenant"),)

    def __str__(self) -> str:
        return str(self.day)
