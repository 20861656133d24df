"""The regular jobs that need the relay. In the embedded mode `gateway.ticker` runs them, else Celery beat.

Must not import: anything of Django. Settings import it.
"""

from billing.schedule import ScheduleEntry, every

GATEWAY_SCHEDULE: dict[str, ScheduleEntry] = {
    # Brings back channels and upstream keys that went out by themselves.
    "probe-routes": every(15.0, "gateway.probe_routes"),
    # Puts charges right that were estimated, where the upstream tells the usage afterwards.
    "look-up-usage": every(30.0, "gateway.look_up_usage"),
}
