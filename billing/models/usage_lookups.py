"""Usage that an upstream is asked for afterwards: one row for an estimated charge that it may correct."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class LookupState(models.TextChoices):
    PENDING = "pending", _("pending")
    DONE = "done", _("done")
    GIVEN_UP = "given_up", _("given up")


class UsageLookup(models.Model):
    """`answer_id` is the upstream's own name of its answer, asked about with the upstream key that got it.

    tries: begun so far. due_at: when the next one may begin, by the database's clock. error_class: of the
    last try that told nothing, e.g. `status_404`, or why none is worth it any more.
    """

    request = models.OneToOneField(
        "billing.RelayRequest",
        verbose_name=_("request"),
        on_delete=models.CASCADE,
        related_name="usage_lookup",
        primary_key=True,
    )
    # No database constraint: as of attempts.
    channel = models.ForeignKey(
        "channels_admin.Channel",
        verbose_name=_("channel"),
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    upstream_key_id = models.BigIntegerField(_("upstream key"))
    answer_id = models.CharField(_("answer id"), max_length=128)
    state = models.CharField(
        _("state"), max_length=16, choices=LookupState.choices, default=LookupState.PENDING
    )
    tries = models.PositiveSmallIntegerField(_("tries"), default=0)
    due_at = models.DateTimeField(_("due"))
    error_class = models.CharField(_("error class"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("usage look-up")
        verbose_name_plural = _("usage look-ups")
        indexes = (models.Index("due_at", condition=models.Q(state="pending"), name="usagelookup_due"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=LookupState.values), name="usagelookup_known_state"
            ),
        )

    def __str__(self) -> str:
        return f"usage look-up of {self.request_id}"
