"""What the client asked and how it ended: one row per relay request, written after it settled.

Fields and constraints only. Rows are written by `billing.services.requests`; no code here decides.
"""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

SUCCESSFUL_REASONS = ("completed", "completed_without_terminal")
"""The same as `relay.core.end_reasons.SUCCESSFUL`, frozen for an index; a test compares them."""


class RequestState(models.TextChoices):
    FINAL = "final", _("final")
    ABANDONED = "abandoned", _("abandoned")
    """Written by reconciliation after a crash; an outcome that comes later outranks it."""


class RelayRequest(models.Model):
    """`id` is the UUIDv7 that the client saw as `X-Request-Id`: it sorts by time, so lists page by it.

    Sizes are bytes, durations milliseconds. No prompt, completion or tool argument: counts only.
    """

    id = models.UUIDField(_("request id"), primary_key=True, editable=False)
    tenant = models.ForeignKey(
        "channels_admin.Tenant",
        verbose_name=_("tenant"),
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    api_key = models.ForeignKey(
        "channels_admin.ApiKey",
        verbose_name=_("API key"),
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    group = models.CharField(_("group"), max_length=64)
    client_request_id = models.CharField(_("client's request id"), max_length=200, blank=True)
    method = models.CharField(_("method"), max_length=16)
    path = models.CharField(_("path"), max_length=500)
    family = models.CharField(_("family"), max_length=32)
    dialect = models.CharField(_("dialect"), max_length=32)
    model_asked = models.CharField(_("model asked"), max_length=200, blank=True)
    model_served = models.CharField(_("model served"), max_length=200, blank=True)
    """In the tenant's words: the model asked for, or a fallback in its stead."""
    model_answered = models.CharField(_("model answered"), max_length=200, blank=True)
    stream_asked = models.BooleanField(_("stream asked"))
    status = models.PositiveSmallIntegerField(_("status"))
    end_reason = models.CharField(_("end reason"), max_length=32)
    started_at = models.DateTimeField(_("started"))
    duration_ms = models.FloatField(_("duration (ms)"))
    first_event_ms = models.FloatField(_("first event (ms)"), null=True)
    request_bytes = models.PositiveBigIntegerField(_("request bytes"), default=0)
    response_bytes = models.PositiveBigIntegerField(_("response bytes"), default=0)
    message_count = models.PositiveIntegerField(_("message count"), default=0)
    tool_count = models.PositiveIntegerField(_("tool count"), default=0)
    state = models.CharField(
        _("state"), max_length=16, choices=RequestState.choices, default=RequestState.FINAL
    )
    cost_nano = models.BigIntegerField(_("cost (nano-dollars)"), null=True)
    """Nano-dollars charged; null = nothing was charged yet, which is not the same as 0."""
    estimated = models.BooleanField(_("estimated"), default=False)
    """The charge rests on counted text, not on what the upstream reported."""
    price = models.ForeignKey(
        "billing.Price",
        verbose_name=_("price"),
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    """The price row that was in force when the request was admitted; null = none (unpriced)."""
    multiplier = models.ForeignKey(
        "billing.GroupMultiplier",
        verbose_name=_("group multiplier"),
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    """Null = 1."""
    operator_cost_nano = models.BigIntegerField(_("operator cost (nano-dollars)"), null=True)
    """Sum over the attempts whose channel has a cost price; null = none has."""
    possible_duplicates = models.PositiveSmallIntegerField(_("possible duplicate charges"), default=0)
    recorded_at = models.DateTimeField(_("recorded"), db_default=Now())

    class Meta:
        verbose_name = _("relay request")
        verbose_name_plural = _("relay requests")
        ordering = ("-id",)
        indexes = (
            models.Index("tenant", models.F("id").desc(), name="relayrequest_by_tenant"),
            models.Index("api_key", models.F("id").desc(), name="relayrequest_by_api_key"),
            models.Index("end_reason", models.F("id").desc(), name="relayrequest_by_end"),
            models.Index("model_asked", models.F("id").desc(), name="relayrequest_by_model"),
            # What is rare: without these a page of it would be looked for among all.
            models.Index(
                models.F("id").desc(),
                condition=~models.Q(end_reason__in=SUCCESSFUL_REASONS),
                name="relayrequest_failed",
            ),
            models.Index(
                models.F("id").desc(), condition=models.Q(estimated=True), name="relayrequest_estimated"
            ),
            models.Index(
                models.F("id").desc(), condition=models.Q(state="abandoned"), name="relayrequest_abandoned"
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=RequestState.values), name="relayrequest_known_state"
            ),
        )

    def __str__(self) -> str:
        return str(self.pk)
