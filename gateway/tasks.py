"""Celery tasks that need the relay: thin shells. Each ends within 20 s, whatever an upstream does."""

from celery import shared_task

from gateway.route_probes import probe_due_routes


@shared_task(name="gateway.probe_routes")
def probe_routes() -> None:
    """See `gateway.route_probes`."""
    probe_due_routes()
