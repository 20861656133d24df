"""One cluster for all tests of this folder; each of them leaves it whole."""

import shutil
import signal
from contextlib import ExitStack

import pytest

from tests.bench.processes import Processes
from tests.chaos.books import Books
from tests.chaos.cluster import Cluster
from tests.chaos.postgres import PostgresServer, programs

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def pytest_collection_modifyitems(items):
    """They take minutes each, on a machine of ordinary speed."""
    for item in items:
        if "tests/chaos/" in str(item.path):
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    with Processes(tmp_path_factory.mktemp("chaos-logs")) as owner:
        yield owner
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def postgres(processes):
    found = programs()
    assert found, "`make chaos` needs the programs of a PostgreSQL server (initdb)"
    return PostgresServer(processes, found)


@pytest.fixture(scope="session")
def whole_cluster(processes, postgres, tmp_path_factory):
    assert shutil.which("redis-server"), "`make chaos` needs redis-server"
    cluster = Cluster(processes, tmp_path_factory.mktemp("chaos"), postgres.url)
    cluster.prepare()
    return cluster


@pytest.fixture
def cluster(whole_cluster):
    whole_cluster.restore()
    return whole_cluster


@pytest.fixture
def servers(cluster):
    return [cluster.servers[name] for name in "abcd"]


@pytest.fixture
def books(cluster):
    with ExitStack() as held:
        made = Books(cluster.database.url, cluster.redis.url)
        held.callback(made.close)
        yield made
