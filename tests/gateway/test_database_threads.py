"""The relay's database threads after an outage: a dead connection costs nobody an answer."""

import pytest
from django.db import InterfaceError, OperationalError, connection

from gateway.threads import DatabaseThreads

pytestmark = pytest.mark.django_db(transaction=True)


class Failing:
    """times: so many calls find the server gone."""

    def __init__(self, error, times):
        self.error, self.times, self.calls = error, times, 0

    def __call__(self, value):
        self.calls += 1
        if self.calls <= self.times:
            raise self.error("gone")
        connection.ensure_connection()
        return value


def connect():
    """In the calling thread: `connection` stands for another one in each."""
    connection.ensure_connection()


@pytest.fixture
async def threads():
    made = DatabaseThreads(name="test", size=1)
    yield made
    await made.aclose()


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
async def test_a_read_on_a_dead_connection_is_asked_again_on_a_new_one(threads, error):
    await threads.run(connect)
    failing = Failing(error, 1)
    assert await threads.read(failing, 5) == 5
    assert failing.calls == 2


async def test_twice_is_enough(threads):
    await threads.run(connect)
    failing = Failing(OperationalError, 2)
    with pytest.raises(OperationalError):
        await threads.read(failing, 5)
    assert failing.calls == 2
    assert await threads.read(failing, 6) == 6


async def test_a_server_that_cannot_be_reached_is_not_asked_twice(threads):
    failing = Failing(OperationalError, 1)
    with pytest.raises(OperationalError):
        await threads.read(failing, 5)
    assert failing.calls == 1


async def test_what_writes_is_never_repeated(threads):
    await threads.run(connect)
    failing = Failing(OperationalError, 1)
    with pytest.raises(OperationalError):
        await threads.run(failing, 5)
    assert failing.calls == 1
