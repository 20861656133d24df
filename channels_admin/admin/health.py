"""Health in the lists of channels and upstream keys: failures in a row, rests, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.decorators import display

from channels_admin.health import HealthUnavailable, Route, RouteHealth, RouteKind, health_store
from channels_admin.services.route_health import route_cooldown_clear

if TYPE_CHECKING:
    from unfold.admin import ModelAdmin
else:
    ModelAdmin = object

SOUND, FAILING, RESTING, UNKNOWN = "sound", "failing", "resting", "unknown"
_COLOURS = {SOUND: "success", FAILING: "warning", RESTING: "danger", UNKNOWN: "info"}


class HealthAdmin(ModelAdmin):
    """Beside `ConfiguredAdmin`, for rows that are routes."""

    route_kind: ClassVar[RouteKind]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        shown = list(super().get_list_display(request))
        return [*shown, _health_column(self.route_kind)]

    @admin.action(description=_("Clear cooldown and failures"), permissions=["change"])
    def clear_cooldowns(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        chosen = list(rows)
        try:
            for row in chosen:
                route_cooldown_clear(route=Route(self.route_kind, row.pk))
                self.log_change(request, row, str(_("Cooldown cleared")))
        except HealthUnavailable:
            self.message_user(request, _("The health store does not answer. Try again."), messages.ERROR)
            return
        text = ngettext("Cleared: %(count)d row.", "Cleared: %(count)d rows.", len(chosen))
        self.message_user(request, text % {"count": len(chosen)}, messages.SUCCESS)


def _health_column(kind: RouteKind) -> Callable[[Model], tuple[str, str]]:
    """A column that asks the store once for all rows of one page."""
    known: list[Mapping[Route, RouteHealth] | None] = []

    def health(row: Model) -> tuple[str, str]:
        if not known:
            known.append(_states())
        return health_text(known[0], Route(kind, row.pk))

    shown: Callable[[Model], tuple[str, str]] = display(description=_("health"), label=_COLOURS)(health)
    return shown


def health_text(states: Mapping[Route, RouteHealth] | None, route: Route) -> tuple[str, str]:
    """(colour key, words). None: the store does not answer."""
    if states is None:
        return UNKNOWN, str(_("unknown"))
    health = states.get(route, RouteHealth())
    if health.cooling_s > 0:
        words = _("rests for %(seconds)d s: %(reason)s")
        return RESTING, str(words % {"seconds": round(health.cooling_s), "reason": health.reason})
    if health.failures:
        return FAILING, ngettext(
            "%(count)d failure in a row", "%(count)d failures in a row", health.failures
        ) % {"count": health.failures}
    return SOUND, str(_("sound"))


def _states() -> Mapping[Route, RouteHealth] | None:
    try:
        return health_store().states()
    except HealthUnavailable:
        return None
