"""Counters of admission and recording. No request, tenant or model in a label.

Must not import: Django, anything of billing.
"""

from prometheus_client import Counter, Gauge

SETTLE_FAILURES = Counter(
    "sluice_courier_settle_failures",
    "Batches of outcomes that the admission store did not take; tried again.",
)
NUDGE_FAILURES = Counter("sluice_courier_nudge_failures", "Nudges of the workers that failed.")
REPORTS_LATE = Counter("sluice_courier_reports_late", "Outcomes reported after the courier was closed.")
UNDELIVERED = Counter("sluice_courier_undelivered", "Outcomes still in memory when the courier closed.")
RECORDED = Counter("sluice_requests_recorded", "Relay requests written to the database.")
REPEATED = Counter("sluice_requests_repeated", "Outcomes whose relay request had been written before.")
DEAD = Counter("sluice_outcomes_dead", "Outcomes that could not be written and were kept apart.")
RECORDING_INTERRUPTED = Counter(
    "sluice_recording_interrupted", "Batches given back because database or store did not answer."
)
TASKS_INTERRUPTED = Counter(
    "sluice_tasks_interrupted", "Regular jobs that ended early because database or store did not answer."
)
ABANDONED = Counter("sluice_requests_abandoned", "Requests of dead processes that were booked.")
OPEN_SUMS_CORRECTED = Counter(
    "sluice_open_sums_corrected", "Cached sums of an account's open amounts that differed from its records."
)
LEDGER_DRIFTS = Gauge(
    "sluice_ledger_drifts", "Findings of the ledger's check that still stand.", multiprocess_mode="mostrecent"
)
USAGE_LOOKUPS = Counter(
    "sluice_usage_lookups",
    "Estimated charges that an upstream was asked about, by what came of it.",
    ["result"],
)
DELETED = Counter("sluice_requests_deleted", "Relay requests deleted because of their age.")
RECORDS_WRITTEN_AGAIN = Counter(
    "sluice_open_records_written_again",
    "Times a process wrote its open records again, because the store had forgotten them.",
)
ADMISSIONS_REFUSED = Counter(
    "sluice_admissions_refused", "Requests refused before they ran, by kind of reason.", ["reason"]
)
IDEMPOTENT_REPEATS = Counter(
    "sluice_idempotent_repeats",
    "Requests whose `Idempotency-Key` had been used before, by what they got.",
    ["outcome"],
)
STORE_FAILURES = Counter(
    "sluice_admission_store_failures", "Batches of calls that the admission store did not answer."
)
POSTED_CALLS_FAILED = Counter(
    "sluice_admission_store_posted_calls_failed",
    "Queued calls that the admission store answered with an error; sent again.",
)
MIRROR_FAILURES = Counter(
    "sluice_open_record_mirror_failures", "Times open records could not be written to their mirror."
)
OVERLOADED = Counter("sluice_overloaded", "Requests refused because this process is at a limit.", ["reason"])
REQUESTS = Counter("sluice_requests", "Relay requests that ended, by end reason.", ["end_reason"])
ACTIVE_REQUESTS = Gauge("sluice_active_requests", "Relay requests that run now.", multiprocess_mode="livesum")
LOOP_LAG = Gauge(
    "sluice_loop_lag_seconds", "How late the event loop is; the worst process.", multiprocess_mode="livemax"
)
