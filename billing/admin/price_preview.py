"""“What would this cost?”: a usage typed in → amount and lines, by the pure core that charges requests."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
)

from billing.core.money import usd_text
from billing.core.price_json import usd_written
from billing.core.prices import PriceTerms
from billing.core.pricing import Cost, cost_of
from relay.core.usage import TokenUsage

_MOST = 10**12
_COUNTS = {
    "input": _("input tokens, the whole prompt"),
    "cached_input": _("of them read from the cache"),
    "cache_write_5m": _("of them written to the cache, 5 min"),
    "cache_write_1h": _("of them written to the cache, 1 h"),
    "audio_input": _("of them audio"),
    "image_input": _("of them image"),
    "output": _("output tokens, the whole answer"),
    "reasoning": _("of them reasoning"),
    "audio_output": _("of them audio"),
    "image_output": _("of them image"),
    "images": _("pictures"),
    "audio_ms": _("milliseconds of audio"),
    "characters": _("characters"),
}


class PreviewForm(forms.Form):
    size = forms.CharField(
        label=_("size"), required=False, max_length=32, widget=UnfoldAdminTextInputWidget()
    )
    quality = forms.CharField(
        label=_("quality"), required=False, max_length=32, widget=UnfoldAdminTextInputWidget()
    )
    multiplier = forms.DecimalField(
        label=_("multiplier"),
        min_value=0,
        max_digits=12,
        decimal_places=6,
        widget=UnfoldAdminDecimalFieldWidget(),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        counts = {
            name: forms.IntegerField(
                label=label,
                required=False,
                min_value=0,
                max_value=_MOST,
                widget=UnfoldAdminIntegerFieldWidget(),
            )
            for name, label in _COUNTS.items()
        }
        self.fields = counts | self.fields

    def cost(self, terms: PriceTerms) -> Cost:
        """Call it on a valid form."""
        values = self.cleaned_data
        usage = TokenUsage(**{name: values[name] for name in _COUNTS})
        return cost_of(usage, terms, values["multiplier"], size=values["size"], quality=values["quality"])


def cost_context(cost: Cost) -> Mapping[str, object]:
    """What `billing/cost_lines.html` shows: the formula with its numbers."""
    return {
        "amount": usd_text(cost.amount_nano),
        "multiplier": usd_written(cost.multiplier),
        "sum": usd_written(sum((line.subtotal_usd for line in cost.lines), Decimal(0))),
        "lines": [
            {
                "part": line.part,
                "count": line.count,
                "unit": usd_written(line.unit.usd),
                "per": _UNITS.get(line.part, _("million tokens")),
                "source": line.unit.source,
                "subtotal": usd_written(line.subtotal_usd),
            }
            for line in cost.lines
        ],
    }


_UNITS = {
    "per_call": _("call"),
    "per_image": _("picture"),
    "per_audio_second": _("second, counted in ms"),
    "per_character": _("million characters"),
}
