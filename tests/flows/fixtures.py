"""Fixtures of the whole gateway, shared by tests/flows and tests/e2e through tests/conftest.py.

Both lanes use them: with REDIS_URL each test has keys of its own in Redis and plays the worker itself.
"""

import ipaddress
import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
from celery import current_app


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
def lane_settings(transactional_db, settings) -> Iterator[None]:
    """This lane's store, empty; the simulator on loopback may be dialled."""
    from billing import admission  # noqa: PLC0415  needs Django set up

    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = (ipaddress.ip_network("127.0.0.0/8"),)
    settings.ADMISSION_KEY_PREFIX = f"test:{uuid.uuid4().hex}:"
    admission.admission_forget()
    yield
    if settings.REDIS_URL:
        admission.open_records().close()
        delete_keys(settings.REDIS_URL, settings.ADMISSION_KEY_PREFIX)
    admission.admission_forget()


@pytest.fixture
async def gateway(lane_settings) -> AsyncIterator["object"]:
    """A running gateway; fails at teardown when a task, socket, thread or record is left."""
    from tests.flows.gateway import running_gateway  # noqa: PLC0415  needs Django set up

    async with running_gateway() as running:
        yield running
