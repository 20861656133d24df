"""Outcomes that could not be written, with the button that tries again. The payload is never shown."""

from django.contrib import admin, messages
from django.contrib.admin import EmptyFieldListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.decorators import display

from billing.admin.base import RecordAdmin
from billing.db_errors import TRANSIENT_ERRORS
from billing.models import DeadOutcome
from billing.services.replay import dead_outcome_replay


@admin.register(DeadOutcome)
class DeadOutcomeAdmin(RecordAdmin):
    list_display = ("request_id", "error_class", "failures", "failed_at", "resolved_at")
    list_filter = (("resolved_at", EmptyFieldListFilter),)
    ordering = ("-id",)
    search_fields = ("=request_id", "=error_class")
    fields = ("request_id", "error_class", "failures", "failed_at", "resolved_at", "payload_size")
    readonly_fields = ("payload_size",)
    actions = ("replay",)

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("billing.change_deadoutcome"))

    @display(description=_("size (bytes)"))
    def payload_size(self, dead: DeadOutcome) -> int:
        return len(dead.payload)

    @admin.action(description=_("Write again"), permissions=["replay"])
    def replay(self, request: HttpRequest, rows: QuerySet[DeadOutcome]) -> None:
        written = failed = 0
        try:
            for dead in rows.order_by("id"):
                if dead_outcome_replay(dead):
                    written += 1
                    self.log_change(request, dead, str(_("Written again")))
                else:
                    failed += 1
        except TRANSIENT_ERRORS:
            self.message_user(request, _("The database is busy: try again."), messages.WARNING)
        if written:
            text = ngettext("%(count)d outcome written.", "%(count)d outcomes written.", written)
            self.message_user(request, text % {"count": written}, messages.SUCCESS)
        if failed:
            text = ngettext("%(count)d outcome failed again.", "%(count)d outcomes failed again.", failed)
            self.message_user(request, text % {"count": failed}, messages.ERROR)
