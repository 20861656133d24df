"""Celery tasks that need the relay: thin shells. Each ends within 20 s, whatever an upstream does."""

import logging
from collections.abc import Callable

from celery import shared_task

from billing import metrics
from billing.db_errors import TRANSIENT_ERRORS
from gateway.route_probes import probe_due_routes
from gateway.usage_lookups import look_up_due_usage

_logger = logging.getLogger(__name__)


@shared_task(name="gateway.probe_routes")
def probe_routes() -> None:
    """See `gateway.route_probes`."""
    _run("probe_routes", probe_due_routes)


@shared_task(name="gateway.look_up_usage")
def look_up_usage() -> None:
    """See `gateway.usage_lookups`."""
    _run("look_up_usage", look_up_due_usage)


def _run(name: str, job: Callable[[], object]) -> None:
    """An outage is a line, not a crash: the next run is near."""
    try:
        job()
    except TRANSIENT_ERRORS as error:
        metrics.TASKS_INTERRUPTED.inc()
        _logger.warning("%s was interrupted (%s); its next run goes on", name, type(error).__name__)
