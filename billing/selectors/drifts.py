"""What the hourly check of the ledger found, and what of it still stands."""

from billing.models import LedgerDrift


def drifts_standing() -> int:
    """How many findings no later check has found right again."""
    return LedgerDrift.objects.filter(resolved_at=None).count()
