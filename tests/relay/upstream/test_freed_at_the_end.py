"""What a request was made of is freed with its end, not by the garbage collector some time later."""

import gc
from collections.abc import Iterator

import pytest

from relay.upstream.attempt import Attempt
from relay.upstream.pump import Pump
from relay.upstream.readings.stream import StreamRelay
from relay.upstream.running import RunningRequest
from tests.fakes.runtime import DONE, HELLO, STOP, settle

OWN = (Attempt, Pump, RunningRequest, StreamRelay)


@pytest.fixture
def kept_garbage() -> Iterator[list[object]]:
    """What only a collection could have freed."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


async def test_a_stream_leaves_nothing_to_the_garbage_collector(runtime, kept_garbage):
    client = runtime.ask()
    body = await runtime.streaming(HELLO, STOP, DONE)
    body.end()
    await client.end()
    assert runtime.recorder.one.attempts
    del client, body
    await settle()
    gc.collect()
    left = [type(one).__name__ for one in kept_garbage if isinstance(one, OWN)]
    assert not left
