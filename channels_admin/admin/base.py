"""What the console's configuration pages share: saving through services, no deletion, status actions."""

# ruff: noqa: ARG002, SLF001
# Django's hooks have fixed signatures, and `_meta` is its documented API.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.admin import ModelAdmin

from channels_admin.admin.fields import CheckedAutocomplete, LinesField, MapField
from channels_admin.statuses import AccessStatus, RouteStatus

ROUTE_STATUS_LABELS = {
    RouteStatus.ENABLED.value: "success",
    RouteStatus.DISABLED.value: "warning",
    RouteStatus.AUTO_DISABLED.value: "danger",
    RouteStatus.CLOSED.value: "info",
}
ACCESS_STATUS_LABELS = {AccessStatus.ACTIVE.value: "success", AccessStatus.CLOSED.value: "info"}
CONCURRENCY_FIELDS = ("max_concurrent_requests", "max_concurrent_streams")
LIMIT_FIELDS = (*CONCURRENCY_FIELDS, "requests_per_minute", "tokens_per_minute")


if TYPE_CHECKING:
    AnyModelForm = forms.ModelForm[Any]
else:
    AnyModelForm = forms.ModelForm  # no type arguments at run time


class OpenRowForm(AnyModelForm):
    """For rows of which one is open at a time. Django judges no constraint that names a column which is not
    in the form, and the services would take a new row for other values of the open one.
    """

    def _get_validation_exclusions(self) -> set[str]:
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]  # not in the stubs
        return excluded - {"is_closed"}


class ConfiguredAdmin(ModelAdmin):
    """Subclasses give `service_create` and `service_update`, which bump the configuration version."""

    lines_fields: ClassVar[tuple[str, ...]] = ()
    map_fields: ClassVar[tuple[str, ...]] = ()
    list_per_page = 50
    show_full_result_count = False
    warn_unsaved_form = True
    list_filter_submit = True

    def service_create(self, request: HttpRequest, fields: Mapping[str, Any]) -> Model:
        raise NotImplementedError

    def service_update(self, request: HttpRequest, pk: int, fields: Mapping[str, Any]) -> Model:
        raise NotImplementedError

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Records name configured rows for ever: they are closed, never deleted."""
        return False

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        kind = LinesField if db_field.name in self.lines_fields else MapField
        if db_field.name not in self.lines_fields + self.map_fields:
            return super().formfield_for_dbfield(db_field, request, **kwargs)
        return kind(
            label=db_field.verbose_name,
            help_text=db_field.help_text,
            required=not db_field.blank,
            initial=db_field.get_default,
        )

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", CheckedAutocomplete(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The service's row is the saved one; `obj` takes its values for the log and the redirect."""
        names = form.changed_data if change else form.cleaned_data
        fields = {name: form.cleaned_data[name] for name in names if name in form._meta.fields}
        if not change:
            adopt(obj, self.service_create(request, fields))
        elif fields:
            adopt(obj, self.service_update(request, obj.pk, fields))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return _answered(
            request, lambda: super(ConfiguredAdmin, self).changeform_view(request, *args, **kwargs)
        )

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return _answered(
            request, lambda: super(ConfiguredAdmin, self).changelist_view(request, *args, **kwargs)
        )

    def apply_to_each(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        service: Callable[[int], Model],
        done: str,
    ) -> None:
        """Runs a service on each chosen row, logs it, and tells how many."""
        chosen = list(rows)
        for row in chosen:
            self.log_change(request, service(row.pk), done)
        count = len(chosen)
        text = ngettext("%(done)s: %(count)d row.", "%(done)s: %(count)d rows.", count)
        self.message_user(request, text % {"done": done, "count": count}, messages.SUCCESS)

    def confirm_close(
        self, request: HttpRequest, rows: QuerySet[Any], consequence: str
    ) -> HttpResponse | None:
        """The page that asks first; None once it was confirmed."""
        if request.POST.get("confirmed"):
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": _("Close?"),
            "opts": self.model._meta,
            "rows": rows,
            "consequence": consequence,
            "action": request.POST["action"],
        }
        return TemplateResponse(request, "channels_admin/confirm_close.html", context)


def adopt(obj: Model, saved: Model) -> None:
    for field in saved._meta.concrete_fields:
        setattr(obj, field.attname, getattr(saved, field.attname))
    obj._state.adding = False


def _answered(request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    """Forms validate first, so a service refuses only what changed in between: told, not a crash."""
    try:
        return view()
    except ValidationError as error:
        for message in error.messages:
            messages.error(request, message)
        return HttpResponseRedirect(request.get_full_path())
