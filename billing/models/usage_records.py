"""The tokens one relay request used, with their source. One row per request, present even for nothing."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class UsageSource(models.TextChoices):
    REPORTED = "reported", _("reported by the upstream")
    ESTIMATED = "estimated", _("estimated")
    NONE = "none", _("none")


class UsageRecord(models.Model):
    """Parts as in `relay.core.usage.TokenUsage`. Null = not reported, which is not 0."""

    request = models.OneToOneField(
        "billing.RelayRequest",
        verbose_name=_("request"),
        on_delete=models.CASCADE,
        related_name="usage",
        primary_key=True,
    )
    input = models.PositiveBigIntegerField(_("input"), null=True)
    cached_input = models.PositiveBigIntegerField(_("cached input"), null=True)
    cache_write_5m = models.PositiveBigIntegerField(_("cache write, 5 min"), null=True)
    cache_write_1h = models.PositiveBigIntegerField(_("cache write, 1 h"), null=True)
    output = models.PositiveBigIntegerField(_("output"), null=True)
    reasoning = models.PositiveBigIntegerField(_("reasoning"), null=True)
    audio_input = models.PositiveBigIntegerField(_("audio input"), null=True)
    audio_output = models.PositiveBigIntegerField(_("audio output"), null=True)
    image_input = models.PositiveBigIntegerField(_("image input"), null=True)
    image_output = models.PositiveBigIntegerField(_("image output"), null=True)
    images = models.PositiveBigIntegerField(_("images"), null=True)
    audio_ms = models.PositiveBigIntegerField(_("audio (ms)"), null=True)
    characters = models.PositiveBigIntegerField(_("characters"), null=True)
    source = models.CharField(_("source"), max_length=16, choices=UsageSource.choices)
    method = models.CharField(_("method"), max_length=64, blank=True)
    """How an estimate was made; `later_usage`: the upstream told it after the charge was estimated."""

    class Meta:
        verbose_name = _("usage record")
        verbose_name_plural = _("usage records")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(source__in=UsageSource.values), name="usagerecord_known_source"
            ),
        )

    def __str__(self) -> str:
        return f"usage of {self.request_id}"
