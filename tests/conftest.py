"""What every test shares."""

import pytest
from django.apps import apps
from django.db import connection
from django.db.models.signals import post_migrate

from billing import ledger_guards
from tests.flows.fixtures import gateway, lane_settings, own_broker_queue, quick_flush

__all__ = ["gateway", "lane_settings", "own_broker_queue", "quick_flush"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """The ledger's triggers refuse to be emptied, which is how transactional tests clean up.

    They are tested by themselves in tests/billing/test_ledger_guards.py.
    """
    post_migrate.disconnect(sender=apps.get_app_config("billing"), dispatch_uid="billing.ledger_guards")
    with django_db_blocker.unblock():
        ledger_guards.guards_remove(connection)
