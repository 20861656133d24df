"""What a model costs a tenant, and the operator. Rows never change: an edit closes one and makes another."""

from decimal import Decimal
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from billing.core.price_json import BadPriceJson, image_rates_read, tiers_read
from billing.core.prices import PART_NAMES
from channels_admin.models.base import VersionedModel
from channels_admin.validators import validate_groups, validate_model_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_stubs_ext import StrPromise


TERM_NAMES = (*PART_NAMES, "tiers", "image_rates")
NO_PRICE = "no_price"
"""Code of the error that a price says nothing."""


def _part(label: "StrPromise") -> "models.DecimalField[Decimal | None, Decimal | None]":
    # 15 digits: more would not survive SQLite, which keeps decimals as doubles.
    return models.DecimalField(
        label, max_digits=15, decimal_places=9, null=True, blank=True, validators=[MinValueValidator(0)]
    )


class PriceColumns(VersionedModel):
    """At least one of `TERM_NAMES` is set: free is an explicit 0.

    Token parts are USD per million tokens, `per_call` USD per call, `per_image` USD per finished picture,
    `per_audio_second` USD per second of audio, `per_character` USD per million characters of spoken text.
    Null = falls back to another part, in the order that `billing.core.pricing` gives.

    tiers: for prompts longer than so many tokens, other prices of token parts:
    `[{"above_input_tokens": 200000, "input": "2.5", "output": "15"}, …]`. image_rates: USD per picture by
    `size/quality`, `size` or `quality`: `{"1024x1024/high": "0.167"}`. Decimals are strings.
    `version` is the configuration version that brought the row or closed it.
    """

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
    per_image = _part(_("per image"))
    per_audio_second = _part(_("per second of audio"))
    per_character = _part(_("per million characters"))
    tiers = models.JSONField(_("tiers"), default=list, blank=True)
    image_rates = models.JSONField(_("image rates"), default=dict, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        abstract = True

    def clean(self) -> None:
        """JSON columns are what `billing.core.price_json` can read, told at the field. A price is set."""
        super().clean()
        for name, read in (("tiers", tiers_read), ("image_rates", image_rates_read)):
            try:
                read(getattr(self, name))
            except BadPriceJson as error:
                raise ValidationError({name: f"{error}."}) from None
        if all(getattr(self, name) in (None, [], {}) for name in TERM_NAMES):
            raise ValidationError(_("At least one price is expected; free is an explicit 0."), code=NO_PRICE)


def _closed_with_time(table: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=models.Q(is_closed=False, effective_to__isnull=True)
        | models.Q(is_closed=True, effective_to__isnull=False),
        name=f"{table}_closed_with_time",
    )


def _check(field: str, validate: "Callable[[object], None]", value: object) -> None:
    try:
        validate(value)
    except ValidationError as error:
        raise ValidationError({field: error}) from None


class Price(PriceColumns):
    """What a model costs a tenant. `model` is a name or a pattern with `*`; `group` a tenant group, empty for
    all. A model that begins with `/` prices requests without a model by their path.
    """

    model = models.CharField(_("model"), max_length=200)
    group = models.CharField(_("group"), max_length=64, blank=True, default="")

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
            _closed_with_time("price"),
        )

    def clean(self) -> None:
        super().clean()
        _check("model", validate_model_pattern, self.model)
        if self.group:
            _check("group", validate_groups, [self.group])

    def __str__(self) -> str:
        return f"{self.model} ({self.group or 'all groups'})"


class CostPrice(PriceColumns):
    """What a model costs the operator on one channel, by the name sent upstream."""

    channel = models.ForeignKey(
        "channels_admin.Channel",
        verbose_name=_("channel"),
        on_delete=models.PROTECT,
        related_name="cost_prices",
    )
    model = models.CharField(_("model"), max_length=200)

    class Meta:
        verbose_name = _("cost price")
        verbose_name_plural = _("cost prices")
        ordering = ("channel", "model", "-effective_from", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("channel", "model", "effective_from"),
                condition=models.Q(is_closed=False),
                name="costprice_one_open_row",
                violation_error_message=_("This cost price exists."),
            ),
            _closed_with_time("costprice"),
        )

    def clean(self) -> None:
        super().clean()
        _check("model", validate_model_pattern, self.model)

    def __str__(self) -> str:
        return f"{self.model} on {self.channel_id}"


class GroupMultiplier(VersionedModel):
    """Every price of a tenant group times this. Immutable like prices; no row = 1."""

    group = models.CharField(_("group"), max_length=64)
    multiplier = models.DecimalField(
        _("multiplier"), max_digits=12, decimal_places=6, validators=[MinValueValidator(0)]
    )
    effective_from = models.DateTimeField(_("effective from"))
    effective_to = models.DateTimeField(_("effective to"), null=True, blank=True, editable=False)
    is_closed = models.BooleanField(_("closed"), default=False, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("group multiplier")
        verbose_name_plural = _("group multipliers")
        ordering = ("group", "-effective_from", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("group", "effective_from"),
                condition=models.Q(is_closed=False),
                name="groupmultiplier_one_open_row",
                violation_error_message=_("This multiplier exists."),
            ),
            _closed_with_time("groupmultiplier"),
        )

    def clean(self) -> None:
        super().clean()
        _check("group", validate_groups, [self.group])

    def __str__(self) -> str:
        return f"{self.group} × {self.multiplier}"
