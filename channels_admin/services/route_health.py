"""What follows from health: routes that go out by themselves, and come back.

A route that an operator disabled by hand stays as it is: only enabled ones go out, only those that went out
by themselves come back.
"""

import logging

from django.db import transaction
from django.utils import timezone

from channels_admin.health import HealthUnavailable, Route, RouteKind, health_store
from channels_admin.models import Channel, UpstreamKey
from channels_admin.services.config_version import configuration_change, row_switch
from channels_admin.statuses import RouteStatus

_logger = logging.getLogger(__name__)


def route_auto_disable(*, route: Route, reason: str) -> bool:
    """Whether this call did it. reason: a few words of ours."""
    return _switch(route, RouteStatus.ENABLED, RouteStatus.AUTO_DISABLED, reason)


def route_recover(*, route: Route) -> bool:
    """Whether this call did it: it had gone out by itself and a probe found it sound."""
    has_recovered = _switch(route, RouteStatus.AUTO_DISABLED, RouteStatus.ENABLED, "")
    if has_recovered:
        _clear_if_possible(route)
    return has_recovered


def route_cooldown_clear(*, route: Route) -> None:
    """An operator knows better: no rest, no failures. Raises HealthUnavailable."""
    health_store().clear([route])


def route_forget_failures(route: Route) -> None:
    """Once the transaction is committed: a route that was switched on starts afresh."""
    transaction.on_commit(lambda: _clear_if_possible(route))


def _clear_if_possible(route: Route) -> None:
    try:
        health_store().clear([route])
    except HealthUnavailable as error:
        _logger.warning("the failures of %s:%d stay counted: %s", route.kind, route.id, error)


def _switch(route: Route, before: RouteStatus, after: RouteStatus, reason: str) -> bool:
    model = Channel if route.kind is RouteKind.CHANNEL else UpstreamKey
    if not model.objects.filter(pk=route.id, status=before.value).exists():
        return False
    with configuration_change() as version:
        row = model.objects.filter(pk=route.id, status=before.value).first()
        if row is None:
            return False
        fields = {"status": after.value, "status_reason": reason[:200], "status_changed_at": timezone.now()}
        row_switch(row, version, fields)
        return True
