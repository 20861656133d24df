"""Model routes: what belongs to a model rather than to a channel."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import VersionedModel, filled_check, range_check
from channels_admin.models.stream_policies import StreamPolicy
from channels_admin.validators import validate_model_pattern, validate_model_patterns

HEDGE_AFTER_MAX_MS = 60_000


class ModelRoute(VersionedModel):
    """Of the routes that match a request the one with the longest literal pattern wins, a named group
    before all groups.
    """

    model = models.CharField(
        _("model"),
        max_length=200,
        validators=[validate_model_pattern],
        help_text=_("A name, or a pattern with *."),
    )
    group = models.SlugField(
        _("group"), max_length=50, blank=True, default="", help_text=_("Empty: all tenant groups.")
    )
    is_artefact = models.BooleanField(
        _("makes pictures"),
        default=False,
        help_text=_("Requests are never replayed outside image failover, whatever their path."),
    )
    hedge_after_ms = models.PositiveIntegerField(
        _("hedge after (ms)"),
        default=0,
        validators=[MaxValueValidator(HEDGE_AFTER_MAX_MS)],
        help_text=_("No valid event after this time starts a backup on another channel. 0: never."),
    )
    degrade_to_non_stream = models.BooleanField(
        _("degrade to non-stream"),
        default=False,
        help_text=_("When every streamed attempt failed: one plain request to the first channel."),
    )
    fallback_models = models.JSONField(
        _("fallback models"), default=list, blank=True, validators=[validate_model_patterns]
    )
    policy = models.ForeignKey(
        StreamPolicy,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="model_routes",
        verbose_name=_("stream policy"),
        help_text=_("Empty: the channel's."),
    )
    is_closed = models.BooleanField(_("closed"), default=False, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("model route")
        verbose_name_plural = _("model routes")
        ordering = ("model", "group")
        constraints = (
            models.UniqueConstraint(
                fields=("model", "group"),
                condition=models.Q(is_closed=False),
                name="model_route_once",
                violation_error_message=_("This route exists."),
            ),
            filled_check("model_route", "model"),
            range_check("model_route", "hedge_after_ms", 0, HEDGE_AFTER_MAX_MS),
        )

    def clean(self) -> None:
        """A model to fall back to is asked for by its name."""
        super().clean()
        if any("*" in str(name) for name in self.fallback_models):
            raise ValidationError({"fallback_models": _("Names are expected, no patterns.")})

    def __str__(self) -> str:
        return f"{self.model} ({self.group or 'all groups'})"
