"""Rows of the money side, one noun a file. Fields, constraints and `__str__` only.

Must not import: services, selectors, admission.
"""

from billing.models.accounts import Account
from billing.models.attempts import Attempt
from billing.models.dead_outcomes import DeadOutcome
from billing.models.ledger_drifts import DriftKind, LedgerDrift
from billing.models.ledger_entries import EntryKind, LedgerEntry
from billing.models.open_records import OpenRecordRow
from billing.models.prices import CostPrice, GroupMultiplier, Price
from billing.models.relay_requests import RelayRequest, RequestState
from billing.models.usage_lookups import LookupState, UsageLookup
from billing.models.usage_records import UsageRecord, UsageSource
from billing.models.usage_rollups import FIRST_EVENT_BOUNDS_MS, UsageDaily, UsageHourly
from billing.models.usage_slices import SliceKind, UsageSliceDaily, UsageSliceHourly, UsageSliceLate
from billing.models.watermarks import Watermark

__all__ = [
    "FIRST_EVENT_BOUNDS_MS",
    "Account",
    "Attempt",
    "CostPrice",
    "DeadOutcome",
    "DriftKind",
    "EntryKind",
    "GroupMultiplier",
    "LedgerDrift",
    "LedgerEntry",
    "LookupState",
    "OpenRecordRow",
    "Price",
    "RelayRequest",
    "RequestState",
    "SliceKind",
    "UsageDaily",
    "UsageHourly",
    "UsageLookup",
    "UsageRecord",
    "UsageSliceDaily",
    "UsageSliceHourly",
    "UsageSliceLate",
    "UsageSource",
    "Watermark",
]
