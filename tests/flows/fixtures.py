"""Fixtures of the whole gateway, shared by tests/flows and tests/e2e through tests/conftest.py.

Both lanes use them: with REDIS_URL each test has keys of its own in Redis and plays the worker itself.
"""

import ipaddress
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
from celery import current_app

MADE_BY_MIGRATIONS = {
    "contenttypes.ContentType",
    "auth.Permission",
    "auth.Group",
    "auth.Group_permissions",
    "channels_admin.ConfigVersion",
    "channels_admin.RuntimeFlag",
}


def delete_keys(url: str, prefix: str) -> None:
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)


@pytest.fixture(scope="session", autouse=True)
def own_broker_queue() -> Iterator[None]:
    """Nudges of this process go to a queue of its own, which nobody reads and which is thrown away."""
    url = current_app.conf.broker_url or ""
    if not url.startswith("redis"):
        yield
        return
    prefix = f"test:{os.getpid()}:{uuid.uuid4().hex}:"
    options = {**current_app.conf.broker_transport_options, "global_keyprefix": prefix}
    current_app.conf.broker_transport_options = options
    yield
    current_app.pool.force_close_all()
    delete_keys(url, prefix)


@pytest.fixture
def quick_flush() -> Iterator[None]:
    """Deletes the rows behind a transactional test; Django's own flush costs ten times as much.

    Must be set up before `transactional_db`, to be there when that one cleans up.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.test.TransactionTestCase._fixture_teardown", lambda _: _delete_rows())
        yield


def _delete_rows() -> None:
    """All but what migrations made. Foreign keys are checked at the commit: any order will do."""
    from django.apps import apps  # noqa: PLC0415  needs Django set up
    from django.db import connection, transaction  # noqa: PLC0415  likewise

    from channels_admin.models import RuntimeFlag  # noqa: PLC0415  likewise

    assert "test" in Path(connection.settings_dict["NAME"]).name, "not a test database"
    with transaction.atomic(), connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            if model._meta.managed and not model._meta.proxy and model._meta.label not in MADE_BY_MIGRATIONS:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")
        RuntimeFlag.objects.update(value=None, version=0)


@pytest.fixture
def lane_settings(quick_flush, transactional_db, settings, tmp_path) -> Iterator[None]:
    """This lane's store, empty; the simulator on loopback may be dialled."""
    from billing import admission  # noqa: PLC0415  needs Django set up
    from channels_admin.health import health_forget  # noqa: PLC0415

    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = (ipaddress.ip_network("127.0.0.0/8"),)
    settings.DATA_DIR = tmp_path
    settings.ADMISSION_KEY_PREFIX = f"test:{uuid.uuid4().hex}:"
    admission.admission_forget()
    health_forget()
    yield
    if settings.REDIS_URL:
        admission.open_records().close()
        delete_keys(settings.REDIS_URL, settings.ADMISSION_KEY_PREFIX)
    admission.admission_forget()
    health_forget()


@pytest.fixture
async def gateway(lane_settings) -> AsyncIterator["object"]:
    """A running gateway; fails at teardown when a task, socket, thread or record is left."""
    from tests.flows.gateway import running_gateway  # noqa: PLC0415  needs Django set up

    async with running_gateway() as running:
        yield running
