"""Form fields of prices: decimals without trailing zeros, tiers and image rates as JSON that one can read."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from django import forms
from django.db.models import Field
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from billing.core.price_json import usd_written
from billing.core.prices import PART_NAMES
from channels_admin.admin.fields import MapField

_TIERS_HELP = _(
    "Prices of token parts for longer prompts, as JSON: "
    '[{"above_input_tokens": 200000, "input": "2.5", "output": "15"}]. '
    "What a tier leaves out costs what it costs without the tier."
)
_RATES_HELP = _(
    'USD per picture by size/quality, size or quality, as JSON: {"1024x1024/high": "0.167", "low": "0.011"}. '
    "Any other picture costs “per image”; without that it is paid by its tokens, else as the dearest rate."
)


class UsdField(forms.DecimalField):
    widget = UnfoldAdminDecimalFieldWidget

    def prepare_value(self, value: Any) -> Any:
        return usd_written(value) if isinstance(value, Decimal) else value


class _JsonText(MapField):
    def prepare_value(self, value: Any) -> Any:
        text = super().prepare_value(value)
        return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else text


class TiersField(_JsonText):
    """Left empty it is an empty list."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(value) or []


class ImageRatesField(_JsonText):
    pass


def price_formfield(db_field: Field[Any, Any]) -> forms.Field | None:
    """The form field of a price's column; None for columns that are shown as everywhere."""
    if db_field.name in PART_NAMES:
        return UsdField(
            label=capfirst(db_field.verbose_name),
            required=False,
            min_value=0,
            max_digits=15,
            decimal_places=9,
        )
    if db_field.name == "tiers":
        return TiersField(
            label=capfirst(db_field.verbose_name), required=False, initial=list, help_text=_TIERS_HELP
        )
    if db_field.name == "image_rates":
        return ImageRatesField(
            label=capfirst(db_field.verbose_name), required=False, initial=dict, help_text=_RATES_HELP
        )
    return None
