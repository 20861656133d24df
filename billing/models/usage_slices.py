"""Sums of roll-ups over everything but one or two columns: what makes reports over months quick.

Made from roll-ups by `billing.services.usage_slices` when a day is over; reports read roll-ups for days that
have none yet. Nothing is lost with these rows: emptied, with their watermark, they are made anew.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

from billing.models.usage_rollups import UsageFigures


class SliceKind(models.TextChoices):
    """What a slice keeps apart; the rest is added up."""

    ALL = "all", _("everything")
    TENANT = "tenant", _("tenant")
    API_KEY = "api_key", _("API key")
    MODEL = "model", _("model")
    CHANNEL = "channel", _("channel")
    TENANT_MODEL = "tenant+model", _("tenant and model")
    TENANT_CHANNEL = "tenant+channel", _("tenant and channel")
    API_KEY_MODEL = "api_key+model", _("API key and model")
    API_KEY_CHANNEL = "api_key+channel", _("API key and channel")
    MODEL_CHANNEL = "model+channel", _("model and channel")


def _count() -> "models.PositiveBigIntegerField[int, int]":
    return models.PositiveBigIntegerField(default=0)


class UsageSlice(UsageFigures):
    """day: in UTC. What the kind does not keep apart is 0 or empty; a slice by API key has its tenant, too.

    first_events_N: requests whose first event came within `FIRST_EVENT_BOUNDS_MS[N]`, not sooner; the last
    holds the rest. Columns, because adding up numbers inside JSON took most of a report's time.
    """

    kind = models.CharField(_("kind"), max_length=16, choices=SliceKind.choices)
    day = models.DateField(_("day"))
    tenant_id = models.BigIntegerField(_("tenant"), default=0)
    api_key_id = models.BigIntegerField(_("API key"), default=0)
    model = models.CharField(_("model"), max_length=200, default="", blank=True)
    channel_id = models.BigIntegerField(_("channel"), default=0)
    first_events_0 = _count()
    first_events_1 = _count()
    first_events_2 = _count()
    first_events_3 = _count()
    first_events_4 = _count()
    first_events_5 = _count()
    first_events_6 = _count()
    first_events_7 = _count()
    first_events_8 = _count()
    first_events_9 = _count()
    first_events_10 = _count()
    first_events_11 = _count()
    first_events_12 = _count()
    first_events_13 = _count()
    first_events_14 = _count()

    class Meta:
        abstract = True


class UsageSliceDaily(UsageSlice):
    class Meta:
        verbose_name = _("usage slice by day")
        verbose_name_plural = _("usage slices by day")
        constraints = (
            models.UniqueConstraint(
                fields=("kind", "day", "tenant_id", "api_key_id", "model", "channel_id"),
                name="usageslicedaily_one_row",
            ),
        )
        indexes = (
            models.Index("kind", "model", "day", name="usageslicedaily_by_model"),
            models.Index("kind", "channel_id", "day", name="usageslicedaily_by_channel"),
        )

    def __str__(self) -> str:
        return f"{self.day} {self.kind}"


class UsageSliceHourly(UsageSlice):
    """Of kinds with one column only: a report by hour goes back no further than a month."""

    hour = models.DateTimeField(_("hour"))

    class Meta:
        verbose_name = _("usage slice by hour")
        verbose_name_plural = _("usage slices by hour")
        constraints = (
            models.UniqueConstraint(
                fields=("kind", "day", "tenant_id", "api_key_id", "model", "channel_id", "hour"),
                name="usageslicehourly_one_row",
            ),
        )
        indexes = (
            models.Index("kind", "model", "day", name="usageslicehourly_by_model"),
            models.Index("kind", "channel_id", "day", name="usageslicehourly_by_channel"),
        )

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} h {self.kind}"


class UsageSliceLate(models.Model):
    """A transaction changed the roll-ups of a day that was over: its slices are made again.

    One row a transaction, never shared: who makes slices anew deletes the rows it saw, and those of
    transactions it could not see stay.
    """

    day = models.DateField(db_index=True)

    def __str__(self) -> str:
        return str(self.day)
