"""The console's pages of records and money, one noun a module. Nothing here can be deleted."""

from billing.admin.accounts import AccountAdmin, LedgerDriftAdmin, LedgerEntryAdmin
from billing.admin.cost_prices import CostPriceAdmin
from billing.admin.dead_outcomes import DeadOutcomeAdmin
from billing.admin.prices import GroupMultiplierAdmin, PriceAdmin
from billing.admin.relay_requests import RelayRequestAdmin
from billing.admin.usage_reports import UsageReportAdmin

__all__ = [
    "AccountAdmin",
    "CostPriceAdmin",
    "DeadOutcomeAdmin",
    "GroupMultiplierAdmin",
    "LedgerDriftAdmin",
    "LedgerEntryAdmin",
    "PriceAdmin",
    "RelayRequestAdmin",
    "UsageReportAdmin",
]
