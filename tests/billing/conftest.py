"""A store for each test, with keys of its own where it is Redis."""

import contextlib
import os
import uuid

import pytest
import redis
from celery import current_app

from billing import admission, tasks
from billing.admission.redis import connection, workers
from tests.billing.redis_process import SERVER, RedisProcess
from tests.billing.store_lanes import MemoryLane, RedisLane


def redis_url() -> str:
    """REDIS_URL, else a local server that answers, else nothing."""
    if url := os.environ.get("REDIS_URL", ""):
        return url
    url = "redis://127.0.0.1:6379/7"
    with contextlib.suppress(redis.RedisError), redis.Redis.from_url(url, socket_timeout=0.5) as client:
        client.ping()
        return url
    return ""


@pytest.fixture(autouse=True)
def own_data_dir(settings, tmp_path):
    """Couriers that close with records spool them."""
    settings.DATA_DIR = tmp_path


@pytest.fixture(autouse=True)
def no_outage(monkeypatch):
    """An outage that an earlier test left open would swallow this one's first line."""
    monkeypatch.setattr(tasks._Outage, "runs", 0)


@pytest.fixture(scope="session")
def redis_server() -> str:
    url = redis_url()
    if not url:
        pytest.skip("no Redis: set REDIS_URL")
    return url


@pytest.fixture
def redis_prefix(redis_server):
    prefix = f"test:{uuid.uuid4().hex}:"
    yield prefix
    with redis.Redis.from_url(redis_server) as client:
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)


@pytest.fixture
def set_eager():
    """Celery's settings cannot be monkeypatched: they are views over several dicts."""
    conf = current_app.conf
    before = conf.task_always_eager

    def change(value: bool) -> None:
        conf.task_always_eager = value

    yield change
    conf.task_always_eager = before


@pytest.fixture
def memory_settings(settings, set_eager):
    """The process uses the in-process store, and eager tasks."""
    settings.REDIS_URL = ""
    set_eager(True)
    admission.admission_forget()
    yield
    admission.admission_forget()


@pytest.fixture
def redis_settings(settings, redis_server, redis_prefix):
    """The process uses Redis, under keys of this test."""
    settings.REDIS_URL = redis_server
    settings.ADMISSION_KEY_PREFIX = redis_prefix
    admission.admission_forget()
    yield
    close = getattr(admission.open_records(), "close", None)
    if close:
        close()
    admission.admission_forget()


@pytest.fixture
def patient(monkeypatch):
    """What a healthy store answers does not depend on how busy this machine is: its time limits are ten times
    as long. Tests of faults make a lane with the real ones (`own_lane`).
    """
    monkeypatch.setattr(connection, "EXCHANGE_TIMEOUT_S", 10 * connection.EXCHANGE_TIMEOUT_S)
    monkeypatch.setattr(workers, "_SOCKET_TIMEOUT_S", 10 * workers._SOCKET_TIMEOUT_S)


@pytest.fixture(params=["memory", "redis"])
async def lane(request, patient):
    """Each store in its turn, for what both promise."""
    if request.param == "memory":
        yield MemoryLane()
        return
    lane = RedisLane(request.getfixturevalue("redis_server"), request.getfixturevalue("redis_prefix"))
    yield lane
    await lane.aclose()


@pytest.fixture
async def redis_lane(redis_server, redis_prefix, patient):
    lane = RedisLane(redis_server, redis_prefix)
    yield lane
    await lane.aclose()


@pytest.fixture
def redis_process(tmp_path_factory):
    """A server that the test may break."""
    if SERVER is None:
        pytest.skip("no redis-server on this machine")
    process = RedisProcess(tmp_path_factory.mktemp("redis"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def own_lane(redis_process):
    lane = RedisLane(redis_process.url, "own:")
    yield lane
    await lane.aclose()
