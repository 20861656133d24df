"""Counters and gauges of the serving process. No request, tenant or model in a label.

Must not import: Django, the rest of the gateway.
"""

from prometheus_client import Counter, Gauge

REQUESTS = Counter("sluice_requests", "Relay requests that ended, by end reason.", ["end_reason"])
ACTIVE_REQUESTS = Gauge("sluice_active_requests", "Relay requests that run now.", multiprocess_mode="livesum")
ADMISSIONS_REFUSED = Counter(
    "sluice_admissions_refused", "Requests refused before they ran, by kind of reason.", ["reason"]
)
OVERLOADED = Counter("sluice_overloaded", "Requests refused because this process is at a limit.", ["reason"])
IDEMPOTENT_REPEATS = Counter(
    "sluice_idempotent_repeats",
    "Requests whose `Idempotency-Key` had been used before, by what they got.",
    ["outcome"],
)
RECORDS_WRITTEN_AGAIN = Counter(
    "sluice_open_records_written_again",
    "Times a process wrote its open records again, because the store had forgotten them.",
)
LOOP_LAG = Gauge(
    "sluice_loop_lag_seconds", "How late the event loop is; the worst process.", multiprocess_mode="livemax"
)
SETTLED_WAITING = Gauge(
    "sluice_settled_waiting",
    "Requests that are over and that no worker has taken up yet.",
    multiprocess_mode="mostrecent",
)
SETTLED_OLDEST = Gauge(
    "sluice_settled_oldest_seconds",
    "How long the oldest of them has been waiting.",
    multiprocess_mode="mostrecent",
)
