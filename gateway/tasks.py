"""Celery tasks that need the relay: thin shells. Each ends within 20 s, whatever an upstream does."""

import logging

from celery import shared_task

from billing import metrics
from billing.db_errors import TRANSIENT_ERRORS
from gateway.route_probes import probe_due_routes
from gateway.usage_lookups import look_up_due_usage

_logger = logging.getLogger(__name__)


@shared_task(name="gateway.probe_routes")
def probe_routes() -> None:
    """See `gateway.route_probes`."""
    probe_due_routes()


@shared_task(name="gateway.look_up_usage")
def look_up_usage() -> None:
    """See `gateway.usage_lookups`."""
    try:
        look_up_due_usage()
    except TRANSIENT_ERRORS as error:
        metrics.TASKS_INTERRUPTED.inc()
        _logger.warning("look_up_usage was interrupted (%s); its next run goes on", type(error).__name__)
