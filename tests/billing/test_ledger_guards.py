"""The triggers that make the ledger append-only, on whichever database the suite runs on."""

from decimal import Decimal

import pytest
from django.apps import apps
from django.core.checks import Tags, run_checks
from django.db import IntegrityError, connection, transaction

from billing import ledger_guards
from billing.models import LedgerEntry
from billing.services.ledger import account_open
from tests.factories.billing import owner_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def guarded(db):
    """Triggers are part of the test's transaction and go with it."""
    ledger_guards.guards_install(connection)
    account_open(tenant=owner_make().tenant, balance_usd=Decimal(5))


def refused(change) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        change()


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(
    "change",
    [
        lambda: LedgerEntry.objects.update(amount_nano=1),
        lambda: LedgerEntry.objects.all().delete(),
        lambda: LedgerEntry.objects.get().delete(),
        lambda: LedgerEntry.objects.get().save(),
        lambda: execute("UPDATE billing_ledgerentry SET reason = ''"),
        lambda: execute("DELETE FROM billing_ledgerentry"),
    ],
    ids=["update", "delete all", "delete one", "save again", "raw update", "raw delete"],
)
def test_entries_cannot_be_changed_or_deleted(guarded, change):
    refused(change)
    assert LedgerEntry.objects.get().amount_nano == 5_000_000_000


def test_truncate_is_refused_too(guarded):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    connection.check_constraints()  # or the pending ones refuse first
    refused(lambda: execute("TRUNCATE billing_ledgerentry"))


def test_replace_into_is_refused_too(guarded):
    if connection.vendor != "sqlite":
        pytest.skip("REPLACE INTO is SQLite's")
    refused(lambda: execute("REPLACE INTO billing_ledgerentry SELECT * FROM billing_ledgerentry"))


def test_entries_can_be_added(guarded):
    account_open(tenant=owner_make().tenant, balance_usd=Decimal(6))
    assert LedgerEntry.objects.count() == 2


def test_conflicts_can_be_ignored_in_bulk(guarded):
    entry = LedgerEntry.objects.get()
    entry.pk = None
    LedgerEntry.objects.bulk_create([entry], ignore_conflicts=True)
    assert LedgerEntry.objects.count() == 1


def test_installing_twice_changes_nothing(guarded):
    ledger_guards.guards_install(connection)
    assert ledger_guards.guards_missing(connection) == []


def test_migrate_puts_a_lost_trigger_back(guarded):
    ledger_guards.guards_remove(connection)
    assert len(ledger_guards.guards_missing(connection)) == 2
    ledger_guards.after_migrate(sender=apps.get_app_config("billing"), using="default")
    assert ledger_guards.guards_missing(connection) == []
    refused(lambda: LedgerEntry.objects.all().delete())


def test_one_lost_trigger_is_put_back(guarded):
    name = (
        "billing_ledgerentry_no_update" if connection.vendor == "sqlite" else "billing_ledgerentry_no_change"
    )
    suffix = "" if connection.vendor == "sqlite" else " ON billing_ledgerentry"
    execute(f"DROP TRIGGER {name}{suffix}")
    assert ledger_guards.guards_missing(connection) == [name]
    ledger_guards.guards_install(connection)
    assert ledger_guards.guards_missing(connection) == []


def test_the_system_check_sees_an_unprotected_ledger(guarded):
    def ids():
        return [message.id for message in run_checks(tags=[Tags.database], databases=["default"])]

    assert "billing.E001" not in ids()
    ledger_guards.guards_remove(connection)
    assert "billing.E001" in ids()
