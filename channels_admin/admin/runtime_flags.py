"""Runtime settings in the console: each flag with its meaning, effective value and who says so."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from channels_admin.admin.base import ConfiguredAdmin, adopt
from channels_admin.admin.fields import LinesField
from channels_admin.flags import FLAGS, Flag, FlagError, FlagSource, FlagState, flag_state
from channels_admin.models import RuntimeFlag
from channels_admin.services import runtime_flag_set

VALUE = "console_value"
SOURCE_LABELS = {
    FlagSource.DEFAULT.value: "info",
    FlagSource.ENVIRONMENT.value: "warning",
    FlagSource.CONSOLE.value: "success",
}
_SWITCH_WORDS = [("true", _("on")), ("false", _("off"))]


def flag_text(value: object) -> str:
    """A flag's value as the console shows it."""
    if isinstance(value, bool):
        return str(_("on") if value else _("off"))
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def flag_field(state: FlagState) -> forms.Field:
    """The control for a flag; left empty it clears the console's value."""
    flag = state.flag
    options: dict[str, Any] = {
        "label": _("Console value"),
        "required": False,
        "disabled": state.is_pinned,
        "help_text": _("Fixed by the environment (PINNED_FLAGS).")
        if state.is_pinned
        else _("Empty: the environment's value, else the default."),
    }
    if flag.is_switch or flag.choices:
        words = _SWITCH_WORDS if flag.is_switch else [(word, word) for word in flag.choices]
        options["choices"] = [("", _("not set")), *words]
        return forms.ChoiceField(widget=UnfoldAdminSelectWidget(), **options)
    if flag.is_list:
        return LinesField(**options)
    return forms.CharField(widget=UnfoldAdminTextInputWidget(), **options)


def flag_initial(state: FlagState) -> object:
    stored = state.stored
    if stored is None:
        return ""
    if isinstance(stored, bool):
        return "true" if stored else "false"
    return list(stored) if isinstance(stored, tuple) else flag_text(stored)


if TYPE_CHECKING:
    RuntimeFlagModelForm = forms.ModelForm[RuntimeFlag]
else:
    RuntimeFlagModelForm = forms.ModelForm


class RuntimeFlagForm(RuntimeFlagModelForm):
    console_value = forms.Field(required=False)

    class Meta:
        model = RuntimeFlag
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        state = row_state(self.instance)
        self.flag: Flag = state.flag
        self.fields[VALUE] = flag_field(state)
        self.initial[VALUE] = flag_initial(state)

    def clean_console_value(self) -> object | None:
        value = self.cleaned_data[VALUE]
        if value in ("", []):
            return None
        try:
            return self.flag.parse(value)
        except FlagError as error:
            raise ValidationError(str(error)) from error


def row_state(row: RuntimeFlag) -> FlagState:
    return flag_state(FLAGS[row.name], row.value)


@admin.register(RuntimeFlag)
class RuntimeFlagAdmin(ConfiguredAdmin):
    form = RuntimeFlagForm
    list_display = ["name", "group", "effective", "source", "meaning", "changed_by", "changed_at"]
    search_fields = ["name"]
    list_per_page = 200
    actions = None
    shown = ("name", "group", "meaning", "effective", "source", "default", "changed_by", "changed_at")
    fields = [*shown, VALUE]
    readonly_fields = list(shown)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[RuntimeFlag]:
        """Known flags in the order of their table, so that a group stays together."""
        rows: QuerySet[RuntimeFlag] = super().get_queryset(request)
        places = [When(name=name, then=Value(place)) for place, name in enumerate(FLAGS)]
        place = Case(*places, output_field=IntegerField())
        return rows.filter(name__in=FLAGS).annotate(place=place).order_by("place")

    def get_ordering(self, request: HttpRequest) -> list[str]:
        return []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if form.changed_data:
            value = form.cleaned_data[VALUE]
            adopt(obj, runtime_flag_set(name=obj.name, value=value, changed_by=request.user.get_username()))

    @display(description=_("group"))
    def group(self, row: RuntimeFlag) -> str:
        return FLAGS[row.name].group.value

    @display(description=_("meaning"))
    def meaning(self, row: RuntimeFlag) -> str:
        return FLAGS[row.name].meaning

    @display(description=_("default"))
    def default(self, row: RuntimeFlag) -> str:
        return flag_text(FLAGS[row.name].default)

    @display(description=_("effective value"))
    def effective(self, row: RuntimeFlag) -> str:
        return flag_text(row_state(row).value)

    @display(description=_("source"), label=SOURCE_LABELS)
    def source(self, row: RuntimeFlag) -> tuple[str, str]:
        state = row_state(row)
        return state.source.value, str(_("pinned")) if state.is_pinned else state.source.value
