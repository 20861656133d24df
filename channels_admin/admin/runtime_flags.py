"""Runtime settings in the console: each flag with its meaning, effective value and who says so."""

# ruff: noqa: ARG002
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from channels_admin.admin.base import ConfiguredAdmin, adopt
from channels_admin.admin.fields import LinesField
from channels_admin.admin.flag_sections import SOURCE_LABELS, flag_sections, flag_text, row_state
from channels_admin.admin.image_failover import Text, failover_apply
from channels_admin.flags import (
    FLAGS,
    IMAGE_FAILOVER_FLAGS,
    Flag,
    FlagError,
    FlagState,
)
from channels_admin.models import RuntimeFlag
from channels_admin.services import runtime_flag_set

VALUE = "console_value"
_SWITCH_WORDS = [("true", _("on")), ("false", _("off"))]


def reason_not_to_change(state: FlagState) -> Text | None:
    """Why this flag's own page cannot change it; None if it can."""
    if state.is_pinned:
        return _("Fixed by the environment (PINNED_FLAGS).")
    if state.flag.name in IMAGE_FAILOVER_FLAGS:
        return _("Changed by the image failover switch on the settings page, which says what it may cost.")
    return None


def flag_field(state: FlagState) -> forms.Field:
    """The control for a flag; left empty it clears the console's value."""
    flag, reason = state.flag, reason_not_to_change(state)
    options: dict[str, Any] = {
        "label": _("Console value"),
        "required": False,
        "disabled": reason is not None,
        "help_text": reason or _("Empty: the environment's value, else the default."),
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


def _failover_values() -> dict[str, object]:
    return dict(RuntimeFlag.objects.filter(name__in=IMAGE_FAILOVER_FLAGS).values_list("name", "value"))


@admin.register(RuntimeFlag)
class RuntimeFlagAdmin(ConfiguredAdmin):
    form = RuntimeFlagForm
    change_list_template = "channels_admin/runtime_flags.html"
    list_display = ["name", "effective", "source"]
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
        places = [When(name=name, then=Value(place)) for place, name in enumerate(FLAGS)]
        place = Case(*places, output_field=IntegerField())
        return RuntimeFlag.objects.filter(name__in=FLAGS).annotate(place=place).order_by("place")

    def get_ordering(self, request: HttpRequest) -> list[str]:
        return ["place"]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.image_failover_view)
        own = path("image-failover/", view, name="channels_admin_runtimeflag_image_failover")
        return [own, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = super().changelist_view(request, *args, **kwargs)
        context = getattr(response, "context_data", None)
        if context and "cl" in context:
            context["sections"] = flag_sections(list(context["cl"].result_list))
            context["may_change"] = self.has_change_permission(request)
        return response

    def image_failover_view(self, request: HttpRequest) -> HttpResponse:
        """Where the switch and its dialog post to."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        before = _failover_values()
        try:
            done = str(failover_apply(request.POST, request.user.get_username()))
        except ValidationError as error:
            self.message_user(request, " ".join(error.messages), messages.ERROR)
        else:
            self._log_changed(request, before, done)
            self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:channels_admin_runtimeflag_changelist"))

    def _log_changed(self, request: HttpRequest, before: dict[str, object], done: str) -> None:
        for row in RuntimeFlag.objects.filter(name__in=IMAGE_FAILOVER_FLAGS):
            if row.value != before.get(row.name):
                self.log_change(request, row, done)

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
