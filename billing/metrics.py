"""Counters of the admission store and of recording. No request, tenant or model in a label.

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
