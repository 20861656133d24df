"""What must hold whatever happened: asked of the database by other means than the code under test."""

from collections import Counter

from billing.models import Account, EntryKind, LedgerEntry, RelayRequest, UsageDaily, UsageHourly


def assert_books_balance() -> None:
    entries = list(LedgerEntry.objects.order_by("account_id", "account_seq"))
    for account in Account.objects.all():
        own = [entry for entry in entries if entry.account_id == account.pk]
        assert [entry.account_seq for entry in own] == list(range(1, len(own) + 1))
        running = 0
        for entry in own:
            running += entry.amount_nano
            assert entry.balance_after_nano == running
        assert (account.balance_nano, account.account_seq) == (running, len(own))
    charges = Counter(entry.request_id for entry in entries if entry.kind == EntryKind.CHARGE)
    assert set(charges.values()) <= {1}
    assert set(charges) == set(RelayRequest.objects.values_list("pk", flat=True))
    for row in RelayRequest.objects.all():
        assert row.cost_nano == -sum(
            entry.amount_nano
            for entry in entries
            if entry.request_id == row.pk and entry.kind != EntryKind.REFUND
        )
    charged = Counter()
    for entry in entries:
        if entry.request_id is not None and entry.kind != EntryKind.REFUND:
            charged[entry.account.tenant_id, entry.created_at.date()] -= entry.amount_nano
    assert _nonzero(charged) == _nonzero(_summed(UsageDaily, lambda row: row.day))
    assert _nonzero(charged) == _nonzero(_summed(UsageHourly, lambda row: row.hour.date()))
    for table in (UsageDaily, UsageHourly):
        rows = list(table.objects.all())
        assert sum(row.requests for row in rows) == RelayRequest.objects.count()
        assert (
            sum(row.successes for row in rows)
            == RelayRequest.objects.filter(end_reason__startswith="completed").count()
        )
        assert sum(row.estimated for row in rows) == RelayRequest.objects.filter(estimated=True).count()


def _summed(table, day_of) -> Counter:
    sums: Counter = Counter()
    for row in table.objects.all():
        sums[row.tenant_id, day_of(row)] += row.charged_nano
    return sums


def _nonzero(sums: Counter) -> dict:
    return {key: value for key, value in sums.items() if value}
