"""What a model costs a tenant. Rows never change: an edit closes the row and makes a new one."""

from decimal import Decimal
from typing import TYPE_CHECKING

from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from channels_admin.models.base import VersionedModel

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise


def _part(label: "StrPromise") -> "models.DecimalField[Decimal | None, Decimal | None]":
    # 15 digits: more would not survive SQLite, which keeps decimals as doubles.
    return models.DecimalField(
        label, max_digits=15, decimal_places=9, null=True, blank=True, validators=[MinValueValidator(0)]
    )


class Price(VersionedModel):
    """Parts are USD per million tokens, `per_call` USD per call; null = falls back to another part.

    `model` is a name or a pattern with `*`; `group` is a tenant group, empty for all. `version` is the
    configuration version that brought the row or closed it.
    """

    model = models.CharField(_("model"), max_length=200)
    group = models.CharField(_("group"), max_length=64, blank=True, default="")
    effective_from = models.DateTimeField(_("effective from"))
    effective_to = models.DateTimeField(_("effective to"), null=True, blank=True, editable=False)
    """When the row was closed; set together with `is_closed`."""
    is_closed = models.BooleanField(_("closed"), default=False, editable=False)
    input = _part(_("input"))
    cached_input = _part(_("cached input"))
    cache_write_5m = _part(_("cache write, 5 min"))
    cache_write_1h = _part(_("cache write, 1 h"))
    output = _part(_("output"))
    reasoning = _part(_("reasoning"))
    audio_input = _part(_("audio input"))
    audio_output = _part(_("audio output"))
    image_input = _part(_("image input"))
    image_output = _part(_("image output"))
    per_call = _part(_("per call"))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ("model", "group", "-effective_from", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("model", "group", "effective_from"),
                condition=models.Q(is_closed=False),
                name="price_one_open_row",
                violation_error_message=_("This price exists."),
            ),
            models.CheckConstraint(
                condition=models.Q(is_closed=False, effective_to__isnull=True)
                | models.Q(is_closed=True, effective_to__isnull=False),
                name="price_closed_with_time",
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} ({self.group or 'all groups'})"
