"""Drift is found where it is planted, told once, and nowhere else."""

import datetime

import pytest
from django.db.models import F
from hypothesis import given
from hypothesis import strategies as st

from billing import tasks
from billing.core.chain import Fault, Link, Verdict, chain_verify
from billing.models import Account, LedgerDrift, LedgerEntry, UsageDaily, UsageHourly
from billing.selectors.drifts import drifts_standing
from billing.services import ledger_check as service
from billing.services import ledger_entries
from billing.services.ledger import account_correct, account_refund, account_top_up
from billing.services.ledger_check import ledger_check
from billing.services.requests import requests_record
from tests.factories.billing import open_record_make, owner_make, settlement_make

NOON = datetime.datetime(2027, 5, 1, 12, tzinfo=datetime.UTC)
HAND = {"reason": "said so", "actor": "ada"}


# ---- the chain alone


def chain(*amounts: int) -> list[Link]:
    links, balance = [], 0
    for seq, amount in enumerate(amounts, start=1):
        balance += amount
        links.append(Link(seq, amount, balance))
    return links


@pytest.mark.parametrize(
    ("anchor", "links", "verdict"),
    [
        (0, [], Verdict(0)),
        (0, chain(5, -7, 0), Verdict(3)),
        (2, chain(5, -7, 0)[1:], Verdict(3)),
        (2, chain(5, -7)[1:], Verdict(2)),
        (2, [], Verdict(2, Fault(2, "entry 2", "nothing"))),
        (2, chain(5, -7, 0)[2:], Verdict(2, Fault(2, "entry 2", "nothing"))),
        (0, chain(5, -7)[1:], Verdict(0, Fault(1, "entry 1", "entry 2"))),
        (0, [Link(1, 5, 5), Link(3, 1, 6)], Verdict(1, Fault(2, "entry 2", "entry 3"))),
        (0, [Link(1, 5, 6)], Verdict(0, Fault(1, "balance 5", "balance 6"))),
        (1, [Link(1, 5, 5), Link(2, 1, 7), Link(3, 1, 8)], Verdict(1, Fault(2, "balance 6", "balance 7"))),
    ],
)
def test_a_chain_is_followed_to_its_first_fault(anchor, links, verdict):
    assert chain_verify(anchor, links) == verdict


@given(
    amounts=st.lists(st.integers(-(10**18), 10**18), min_size=1, max_size=20),
    place=st.integers(0, 19),
    off=st.integers(1, 10),
)
def test_any_single_change_is_found(amounts, place, off):
    links = chain(*amounts)
    assert chain_verify(0, links) == Verdict(len(links))
    place %= len(links)
    old = links[place]
    for changed in (
        Link(old.seq, old.amount_nano + off, old.balance_nano),
        Link(old.seq, old.amount_nano, old.balance_nano + off),
        Link(old.seq + off, old.amount_nano, old.balance_nano),
    ):
        verdict = chain_verify(0, [*links[:place], changed, *links[place + 1 :]])
        assert verdict.verified_seq == place
        assert verdict.fault is not None


# ---- against the database


@pytest.fixture
def clock(monkeypatch):
    """The database's clock, for entries and for the check."""
    now = [NOON]
    for module in (ledger_entries, service):
        monkeypatch.setattr(module, "database_now", lambda: now[0])
    return now


@pytest.fixture
def books(db, clock):
    """Two tenants and all kinds of entries on one day; looked at two days later."""
    owners = [owner_make(), owner_make()]
    for owner in owners:
        account_top_up(tenant_id=owner.tenant.pk, operation=owner.tenant.name, amount_nano=500, **HAND)
        late = open_record_make(owner, 9)
        requests_record([settlement_make(owner, 30), settlement_make(owner, 0), late])
        requests_record([settlement_make(owner, 4, request_id=late.draft.request_id)])
        account_correct(tenant_id=owner.tenant.pk, operation=f"c-{owner.tenant.name}", amount_nano=-1, **HAND)
    charge = LedgerEntry.objects.filter(kind="charge", amount_nano=-30).first()
    account_refund(request_id=charge.request_id, operation="r", **HAND)
    clock[0] += datetime.timedelta(days=2)
    return owners


def account_of(owner) -> Account:
    return Account.objects.get(tenant=owner.tenant)


def standing() -> list[tuple[str, str, str, str]]:
    rows = LedgerDrift.objects.filter(resolved_at=None).order_by("kind", "place")
    return list(rows.values_list("kind", "place", "expected", "found"))


def test_sound_books_have_no_drift(books):
    assert ledger_check(budget_s=10) == 0
    assert standing() == []
    for owner in books:
        account = account_of(owner)
        assert account.verified_seq == account.account_seq > 0
    assert drifts_standing() == 0


def test_a_forged_amount_is_found_told_once_and_resolved(books, caplog):
    account = account_of(books[0])
    LedgerEntry.objects.filter(account=account, account_seq=2).update(amount_nano=F("amount_nano") + 5)
    assert ledger_check(budget_s=10) > 0
    found = [row for row in standing() if row[0] == "chain"]
    assert found == [("chain", f"account {account.pk} entry 2", "balance 496", "balance 491")]
    assert account_of(books[0]).verified_seq == 1
    assert account_of(books[1]).verified_seq == account_of(books[1]).account_seq
    assert caplog.text.count(f"account {account.pk} entry 2") == 1
    ledger_check(budget_s=10)
    assert caplog.text.count(f"account {account.pk} entry 2") == 1
    assert drifts_standing() == len(standing()) > 0
    LedgerEntry.objects.filter(account=account, account_seq=2).update(amount_nano=F("amount_nano") - 5)
    assert ledger_check(budget_s=10) == 0
    assert LedgerDrift.objects.exclude(resolved_at=None).count() == LedgerDrift.objects.count() > 0
    assert account_of(books[0]).verified_seq == account_of(books[0]).account_seq


def test_a_missing_entry_is_found(books):
    account = account_of(books[0])
    LedgerEntry.objects.filter(account=account, account_seq=3).delete()
    ledger_check(budget_s=10)
    assert ("chain", f"account {account.pk} entry 3", "entry 3", "entry 4") in standing()


def test_what_was_verified_is_not_read_again_but_what_follows_is(books):
    ledger_check(budget_s=10)
    account = account_of(books[0])
    LedgerEntry.objects.filter(account=account, account_seq=2).update(balance_after_nano=0)  # long verified
    assert ledger_check(budget_s=10) == 0
    account_top_up(tenant_id=books[0].tenant.pk, operation="later", amount_nano=1, **HAND)
    LedgerEntry.objects.filter(source="topup:later").update(balance_after_nano=0)
    ledger_check(budget_s=10)
    assert [row[:2] for row in standing() if row[0] == "chain"] == [
        ("chain", f"account {account.pk} entry {account.account_seq + 1}")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"balance_nano": F("balance_nano") + 1},
        {"account_seq": F("account_seq") + 1},
        {"account_seq": F("account_seq") - 1},
        {"account_seq": 0},
    ],
    ids=["balance", "ahead", "behind", "none"],
)
def test_an_account_that_is_not_its_last_entry_is_found(books, change):
    ledger_check(budget_s=10)
    account = account_of(books[0])
    Account.objects.filter(pk=account.pk).update(**change)
    ledger_check(budget_s=10)
    assert [row[:2] for row in standing() if row[0] == "balance"] == [("balance", f"account {account.pk}")]
    Account.objects.filter(pk=account.pk).update(
        balance_nano=account.balance_nano, account_seq=account.account_seq
    )
    assert ledger_check(budget_s=10) == 0


@pytest.mark.parametrize(("table", "name"), [(UsageDaily, "daily"), (UsageHourly, "hourly")])
def test_a_roll_up_that_differs_from_the_ledger_is_found(books, table, name):
    tenant = books[1].tenant.pk
    row = table.objects.filter(tenant_id=tenant, charged_nano__gt=0).first()
    table.objects.filter(pk=row.pk).update(charged_nano=F("charged_nano") + 3)
    ledger_check(budget_s=10)
    assert standing() == [("rollup", f"2027-05-01 tenant {tenant} {name}", "34", "37")]
    ledger_check(budget_s=10)
    assert LedgerDrift.objects.count() == 1
    table.objects.filter(pk=row.pk).update(charged_nano=F("charged_nano") - 3)
    assert ledger_check(budget_s=10) == 0


def test_a_roll_up_of_nobody_is_found(books):
    row = UsageDaily.objects.filter(charged_nano__gt=0).first()
    row.pk, row.tenant_id = None, 10**6
    row.save()
    ledger_check(budget_s=10)
    assert [found[:2] for found in standing()] == [("rollup", "2027-05-01 tenant 1000000 daily")]


def test_a_day_that_is_not_over_is_left_alone(books, clock):
    clock[0] = NOON.replace(hour=23)
    UsageDaily.objects.update(charged_nano=0)
    assert ledger_check(budget_s=10) == 0
    clock[0] = NOON + datetime.timedelta(hours=12, minutes=30)  # over, but not for an hour
    assert ledger_check(budget_s=10) == 0
    clock[0] = NOON + datetime.timedelta(hours=13, minutes=1)
    assert ledger_check(budget_s=10) == 2


def test_many_days_are_caught_up_in_several_runs(books, clock):
    clock[0] = NOON + datetime.timedelta(days=80)
    requests_record([settlement_make(books[0], 7)])
    UsageDaily.objects.filter(day=clock[0].date()).update(charged_nano=0)
    clock[0] += datetime.timedelta(days=2)
    runs = 0
    while not ledger_check(budget_s=10):
        runs += 1
        assert runs < 5
    assert standing()[0][1].startswith("2027-07-20")


def test_a_run_without_time_leaves_the_rest_to_the_next(books):
    ledger_check(budget_s=0)
    assert set(Account.objects.values_list("verified_seq", flat=True)) == {0}
    ledger_check(budget_s=10)
    assert 0 not in set(Account.objects.values_list("verified_seq", flat=True))


def test_the_task_runs_it(books):
    UsageDaily.objects.update(charged_nano=0)
    tasks.reconcile_ledger()
    assert LedgerDrift.objects.count() == 2


def test_the_number_of_queries_does_not_grow_with_entries(books, django_assert_max_num_queries):
    requests_record([settlement_make(books[0], 1) for _ in range(100)])
    with django_assert_max_num_queries(60):
        ledger_check(budget_s=10)
