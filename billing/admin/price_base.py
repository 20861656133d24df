"""What the pages of prices and cost prices share: fields, what a price resolves to, the preview, closing."""

# ruff: noqa: ARG002, SLF001
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypedDict, cast

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.decorators import action, display

from billing.admin.price_fields import price_formfield
from billing.admin.price_preview import PreviewForm, cost_context
from billing.core.price_json import image_rates_read, tiers_read, usd_written
from billing.core.prices import PART_NAMES, TOKEN_PARTS, UNSET, PriceParts, Tier
from billing.core.pricing import ONE
from billing.models.prices import NO_PRICE, TERM_NAMES, PriceColumns
from billing.selectors.prices import price_terms
from channels_admin.admin.base import ConfiguredAdmin, OpenRowForm

TERM_FIELDSETS = (
    (_("USD per million tokens"), {"fields": TOKEN_PARTS}),
    (_("USD each"), {"fields": ("per_call", "per_image", "per_audio_second")}),
    (_("USD per million characters of spoken text"), {"fields": ("per_character",)}),
    (_("Long prompts, pictures by size"), {"fields": ("tiers", "image_rates")}),
    (_("What counts"), {"fields": ("resolved",)}),
)
STATE_FIELDSET = (_("State"), {"fields": ("is_closed", "effective_to", "created_at")})


class TermValues(TypedDict):
    parts: PriceParts
    tiers: tuple[Tier, ...]
    image_rates: Mapping[str, Decimal]


class DatedAdmin(ConfiguredAdmin):
    """Rows that never change: a form on an open row closes it and makes another."""

    form = OpenRowForm
    identity: tuple[str, ...] = ()
    readonly_fields: tuple[str, ...] = ("is_closed", "effective_to", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """What a row is for makes it that row; another start is another row."""
        return (*self.readonly_fields, *self.identity) if obj else self.readonly_fields

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"effective_from": timezone.now().replace(second=0, microsecond=0)}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(super().has_change_permission(request, obj)) and not (obj and obj.is_closed)

    def close_chosen(
        self, request: HttpRequest, rows: QuerySet[Any], close: Callable[[Any], None]
    ) -> HttpResponse | None:
        """Asks first; then closes each, logs it, and tells how many."""
        page = self.confirm_close(request, rows, str(_("Requests that begin later are not priced by them.")))
        if page is not None:
            return page
        chosen = list(rows)
        for row in chosen:
            close(row)
            self.log_change(request, row, str(_("Closed")))
        text = ngettext("%(count)d row closed.", "%(count)d rows closed.", len(chosen))
        self.message_user(request, text % {"count": len(chosen)}, messages.SUCCESS)
        return None


class PriceForm(OpenRowForm):
    """A price that cannot be read is told at its field, and not also missed."""

    def _update_errors(self, errors: ValidationError) -> None:
        if self.errors.keys() & set(TERM_NAMES):
            errors = _without(errors, NO_PRICE)
        super()._update_errors(errors)  # type: ignore[misc]  # not in the stubs


class PricedAdmin(DatedAdmin):
    form = PriceForm
    readonly_fields = (*DatedAdmin.readonly_fields, "resolved")
    actions_detail = ("preview",)

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        return price_formfield(db_field) or super().formfield_for_dbfield(db_field, request, **kwargs)

    def multiplier_shown(self, row: Any) -> Decimal:
        """What the preview begins with."""
        return ONE

    @display(description=_("each token part costs"))
    def resolved(self, row: PriceColumns) -> SafeString | str:
        if row.pk is None:
            return "–"
        lines = []
        for rung in price_terms(row).rungs:
            where = f" > {rung.above_input_tokens}" if rung.above_input_tokens else ""
            for part in TOKEN_PARTS:
                unit = rung.units[part]
                origin = "" if unit.source == part or unit is UNSET else f" ({unit.source})"
                amount = unit.source if unit is UNSET else f"{usd_written(unit.usd)} USD"
                lines.append((f"{part}{where}", f"{amount}{origin}"))
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}: {}</li>", lines))

    @action(description=_("What would it cost?"), url_path="preview", permissions=["view"])
    def preview(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A GET form: nothing is changed, and the address can be passed on."""
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        initial = {"multiplier": usd_written(self.multiplier_shown(row))}
        form = PreviewForm(request.GET) if request.GET else PreviewForm(initial=initial)
        cost = form.cost(price_terms(row)) if form.is_bound and form.is_valid() else None
        context = {
            **self.admin_site.each_context(request),
            "title": _("What would it cost?"),
            "opts": self.opts,
            "row": row,
            "form": form,
            "cost": cost and cost_context(cost),
            "row_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk]),
        }
        return TemplateResponse(request, "billing/price_preview.html", context)


def term_values(fields: Mapping[str, Any], row: PriceColumns | None = None) -> TermValues:
    """A form's clean fields → what the services take; what the form leaves out is as `row` has it."""

    def value(name: str, default: object) -> Any:
        return fields.get(name, default if row is None else getattr(row, name))

    return TermValues(
        parts=PriceParts(**{name: value(name, None) for name in PART_NAMES}),
        tiers=tiers_read(value("tiers", [])),
        image_rates=image_rates_read(value("image_rates", {})),
    )


def _without(errors: ValidationError, code: str) -> ValidationError:
    """The same messages by field, but those of the code."""
    kept = {name: [one for one in found if one.code != code] for name, found in errors.error_dict.items()}
    return ValidationError({name: found for name, found in kept.items() if found})


def trimmed(name: str, model: type[Model] = PriceColumns) -> Callable[[Any, Model], str]:
    """A column of a list: the amount without trailing zeros."""

    def shown(_admin: Any, row: Model) -> str:
        usd: Decimal | None = getattr(row, name)
        return "–" if usd is None else usd_written(usd)

    field = cast("Field[Any, Any]", model._meta.get_field(name))
    return display(description=field.verbose_name, ordering=name)(shown)  # type: ignore[no-any-return]
