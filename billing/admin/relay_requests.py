"""The requests that ended, with their attempts: the page an operator opens to learn what happened."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.admin import StackedInline
from unfold.decorators import display

from billing.admin.base import RecordAdmin
from billing.admin.request_charge import charge_context
from billing.admin.request_filters import (
    ApiKeyFilter,
    BeforeFilter,
    ChannelFilter,
    EndReasonFilter,
    FailedFilter,
    ModelFilter,
    StartedFilter,
    TenantFilter,
)
from billing.admin.request_list import RequestList, named
from billing.core.money import usd_text
from billing.models import Attempt, RelayRequest
from billing.services.outcome_rows import usage_parts
from relay.core.end_reasons import ENDINGS, SUCCESSFUL, Blame, EndReason

_LABELS = {
    reason.value: "success"
    if reason in SUCCESSFUL
    else ("danger" if ENDINGS[reason].blame in {Blame.UPSTREAM, Blame.GATEWAY} else "warning")
    for reason in EndReason
}


class AttemptInline(StackedInline):
    model = Attempt
    extra = 0
    max_num = 0
    can_delete = False
    show_change_link = False
    fields = (
        ("number", "channel_name", "upstream_host", "upstream_key_id", "model_sent"),
        ("end_reason", "status", "error_class", "decision", "upstream_request_id", "answer_id"),
        ("started_at", "connect_ms", "header_ms", "first_byte_ms", "first_event_ms", "duration_ms"),
        ("last_event_at", "events", "bytes", "keepalives", "finish_reasons"),
        ("soft_error_count", "soft_errors", "usage"),
        ("shown_operator_cost", "possible_duplicate_charge", "is_hedge"),
        ("stream_asked", "stream_sent", "committed", "terminal_seen"),
        (
            "upstream_connected",
            "stream_processed",
            "stream_finished",
            "usage_complete",
            "client_consumed",
        ),
    )
    readonly_fields = tuple(name for row in fields for name in row)

    @display(description=_("operator cost (USD)"))
    def shown_operator_cost(self, attempt: Attempt) -> str:
        return "–" if attempt.operator_cost_nano is None else usd_text(attempt.operator_cost_nano)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  Django's signature
        return False


@admin.register(RelayRequest)
class RelayRequestAdmin(RecordAdmin):
    list_display = (
        "id",
        "started_at",
        "tenant",
        "model_asked",
        "shown_end_reason",
        "status",
        "stream_asked",
        "first_event_ms",
        "duration_ms",
        "shown_cost",
    )
    list_filter = (
        FailedFilter,
        EndReasonFilter,
        StartedFilter,
        BeforeFilter,
        TenantFilter,
        ApiKeyFilter,
        ModelFilter,
        ChannelFilter,
        "stream_asked",
        "state",
        "estimated",
    )
    list_select_related = ("tenant",)
    ordering = ("-id",)
    search_fields = ("id",)
    search_help_text = _("A request id, an upstream's request id, or the exact name of a tenant.")
    inlines = (AttemptInline,)
    fieldsets = (
        (None, {"fields": (("id", "client_request_id"), ("tenant", "api_key", "group"))}),
        (
            _("Asked"),
            {
                "fields": (
                    ("method", "path", "family", "dialect"),
                    ("model_asked", "model_served", "model_answered", "stream_asked"),
                    ("request_bytes", "message_count", "tool_count"),
                )
            },
        ),
        (
            _("Ended"),
            {
                "fields": (
                    ("end_reason", "status", "state"),
                    ("started_at", "first_event_ms", "duration_ms", "response_bytes"),
                    ("shown_usage", "shown_cost", "estimated", "shown_lookup", "recorded_at"),
                    ("shown_operator_cost", "possible_duplicates"),
                )
            },
        ),
    )
    readonly_fields = ("shown_usage", "shown_cost", "shown_lookup", "shown_operator_cost")
    change_form_outer_after_template = "billing/request_charge.html"

    class Media:
        css = {"all": ("channels_admin/console.css",)}

    def get_queryset(self, request: HttpRequest) -> QuerySet[RelayRequest]:
        rows: QuerySet[RelayRequest] = super().get_queryset(request)
        return rows.select_related("tenant", "api_key", "usage", "usage_lookup")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RequestList]:  # noqa: ARG002  Django's signature
        return RequestList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        if row is not None:
            context |= charge_context(row, request)
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002  Django's signature
        queryset: QuerySet[RelayRequest],
        search_term: str,
    ) -> tuple[QuerySet[RelayRequest], bool]:
        """Look-ups that an index answers, instead of a search through text."""
        term = search_term.strip()
        return (named(queryset, term) if term else queryset), False

    @display(description=_("end reason"), label=_LABELS)
    def shown_end_reason(self, row: RelayRequest) -> str:
        return row.end_reason

    @display(description=_("cost (USD)"))
    def shown_cost(self, row: RelayRequest) -> str:
        return "–" if row.cost_nano is None else usd_text(row.cost_nano)

    @display(description=_("operator cost (USD)"))
    def shown_operator_cost(self, row: RelayRequest) -> str:
        return "–" if row.operator_cost_nano is None else usd_text(row.operator_cost_nano)

    @display(description=_("usage look-up"))
    def shown_lookup(self, row: RelayRequest) -> str:
        """Whether the upstream is asked afterwards, and what came of it."""
        try:
            lookup = row.usage_lookup
        except ObjectDoesNotExist:
            return "–"
        told = f", {lookup.error_class}" if lookup.error_class else ""
        return f"{lookup.get_state_display()} ({lookup.tries}){told}"

    @display(description=_("usage (tokens)"))
    def shown_usage(self, row: RelayRequest) -> str:
        try:
            usage = row.usage
        except ObjectDoesNotExist:
            return "–"
        parts = [f"{name} {count}" for name, count in usage_parts(usage).items() if count is not None]
        return f"{usage.get_source_display()}: {', '.join(parts)}" if parts else usage.get_source_display()
