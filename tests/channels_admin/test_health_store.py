"""The contract of the health store, on each implementation that can run here."""

import os
import time
import uuid
from collections.abc import Iterator

import pytest

from channels_admin.health import HealthStore, HealthUnavailable, Route, RouteKind
from channels_admin.health.memory import MemoryHealth
from channels_admin.health.redis import RedisHealth

CHANNEL, KEY = Route(RouteKind.CHANNEL, 3), Route(RouteKind.KEY, 9)
REDIS_URL = os.environ.get("REDIS_URL", "")


@pytest.fixture(
    params=["memory", pytest.param("redis", marks=pytest.mark.skipif(not REDIS_URL, reason="no REDIS_URL"))]
)
def store(request: pytest.FixtureRequest) -> Iterator[HealthStore]:
    if request.param == "memory":
        yield MemoryHealth()
        return
    made = RedisHealth(REDIS_URL, f"test-{uuid.uuid4().hex}:")
    yield made
    made.clear(list(made.states()))
    made.close()


def test_failures_count_in_a_row_each_route_for_itself(store: HealthStore) -> None:
    assert [store.failed(CHANNEL), store.failed(CHANNEL), store.failed(KEY)] == [1, 2, 1]
    store.succeeded(CHANNEL)
    assert store.failed(CHANNEL) == 1
    assert {route: state.failures for route, state in store.states().items()} == {CHANNEL: 1, KEY: 1}


def test_a_rest_ends_by_itself(store: HealthStore) -> None:
    store.cool(KEY, 0.2, "rate limited")
    state = store.states()[KEY]
    assert 0 < state.cooling_s <= 0.2
    assert state.reason == "rate limited"
    time.sleep(0.25)
    assert KEY not in store.states()


def test_of_two_rests_the_longer_counts(store: HealthStore) -> None:
    store.cool(KEY, 60, "long")
    store.cool(KEY, 1, "short")
    state = store.states()[KEY]
    assert 50 < state.cooling_s <= 60
    assert state.reason == "long"


def test_cleared_is_as_new(store: HealthStore) -> None:
    store.cool(KEY, 60, "x")
    store.failed(KEY)
    store.failed(CHANNEL)
    store.clear([KEY])
    store.clear([])
    assert set(store.states()) == {CHANNEL}
    assert store.failed(KEY) == 1


def test_a_store_that_is_away_says_so_quickly() -> None:
    away = RedisHealth("redis://127.0.0.1:1/0", "test:")
    began = time.monotonic()
    with pytest.raises(HealthUnavailable):
        away.failed(KEY)
    with pytest.raises(HealthUnavailable):
        away.states()
    assert time.monotonic() - began < 2
    away.close()
