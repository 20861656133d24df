"""One try of a relay request against one channel and upstream key: every field of `AttemptOutcome`."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Attempt(models.Model):
    """Times ending in `_ms` are milliseconds from the attempt's start.

    The channel's name and the upstream's host are copied: they say what was true then, and stay right
    when the channel is renamed. Operators see them, tenants never do.
    """

    request = models.ForeignKey(
        "billing.RelayRequest",
        verbose_name=_("request"),
        on_delete=models.CASCADE,
        related_name="attempts",
        db_index=False,
    )
    number = models.PositiveSmallIntegerField(_("number"))
    # No database constraint: an attempt is evidence and is kept, whatever became of its channel.
    channel = models.ForeignKey(
        "channels_admin.Channel",
        verbose_name=_("channel"),
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    channel_name = models.CharField(_("channel name"), max_length=200)
    upstream_key_id = models.BigIntegerField(_("upstream key"), null=True)
    upstream_host = models.CharField(_("upstream host"), max_length=255)
    model_sent = models.CharField(_("model sent"), max_length=200, blank=True)
    stream_asked = models.BooleanField(_("stream asked"))
    stream_sent = models.BooleanField(_("stream sent"))
    end_reason = models.CharField(_("end reason"), max_length=32)
    decision = models.CharField(_("decision"), max_length=500, blank=True)
    error_class = models.CharField(_("error class"), max_length=200, blank=True)
    status = models.PositiveSmallIntegerField(_("status"), null=True)
    upstream_request_id = models.CharField(_("upstream request id"), max_length=200, blank=True)
    answer_id = models.CharField(_("answer id"), max_length=128, blank=True)
    """How the upstream names its answer: what it is asked by for the usage afterwards."""

    started_at = models.DateTimeField(_("started"), null=True)
    connect_ms = models.FloatField(_("connected (ms)"), null=True)
    header_ms = models.FloatField(_("headers (ms)"), null=True)
    first_byte_ms = models.FloatField(_("first byte (ms)"), null=True)
    first_event_ms = models.FloatField(_("first event (ms)"), null=True)
    last_event_at = models.DateTimeField(_("last event"), null=True)
    duration_ms = models.FloatField(_("duration (ms)"), default=0)
    events = models.PositiveBigIntegerField(_("events"), default=0)
    bytes = models.PositiveBigIntegerField(_("bytes"), default=0)
    keepalives = models.PositiveBigIntegerField(_("keepalives"), default=0)
    finish_reasons = models.JSONField(_("finish reasons"), default=list)
    """A list of strings."""
    soft_error_count = models.PositiveIntegerField(_("soft error count"), default=0)
    soft_errors = models.JSONField(_("soft errors"), default=list)
    """The first 20: a list of `{"error_class": str, "offset": int}`."""
    terminal_seen = models.BooleanField(_("terminal seen"), default=False)
    committed = models.BooleanField(_("committed"), default=False)
    upstream_connected = models.BooleanField(_("upstream connected"), default=False)
    stream_processed = models.BooleanField(_("stream processed"), default=False)
    stream_finished = models.BooleanField(_("stream finished"), default=False)
    usage_complete = models.BooleanField(_("usage complete"), default=False)
    client_consumed = models.BooleanField(_("client consumed"), default=False)
    usage = models.JSONField(_("usage"), null=True)
    """What this attempt's upstream reported, for the operator's cost: an object of token counts."""

    operator_cost_nano = models.BigIntegerField(_("operator cost (nano-dollars)"), null=True)
    """What the attempt cost the operator, by the channel's cost price; null = no cost price."""
    possible_duplicate_charge = models.BooleanField(_("possible duplicate charge"), default=False)
    """It repeated a request that its upstream may have carried out and billed already."""
    is_hedge = models.BooleanField(_("hedge"), default=False)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        ordering = ("request", "number")
        indexes = (
            models.Index("channel", models.F("request").desc(), name="attempt_by_channel"),
            models.Index(
                "upstream_request_id",
                condition=~models.Q(upstream_request_id=""),
                name="attempt_by_upstream_id",
            ),
        )
        constraints = (
            models.UniqueConstraint(fields=("request", "number"), name="attempt_number_once_per_request"),
        )

    def __str__(self) -> str:
        return f"attempt {self.number}"
