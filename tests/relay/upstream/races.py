"""Requests whose first attempt is late, on the fake clock."""

from relay.core.end_reasons import EndReason
from relay.core.types import ModelRoute, StreamMode
from tests.fakes.runtime import (
    DONE,
    HELLO,
    STOP,
    USAGE,
    a_channel,
    settle,
    with_policy,
)

ROUTE = ModelRoute(id=1, model="m", hedge_after_s=0.8)
TWO = (a_channel(number=1), a_channel(number=2))
THREE = (*TWO, a_channel(number=3))
FORCED = tuple(with_policy(one, stream_policy=StreamMode.FORCE_STREAM) for one in TWO)
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


class KeptVerdicts:
    def __init__(self) -> None:
        self.verdicts = []

    def is_cooling(self, channel_id, key_id):
        return False

    def note(self, verdict):
        self.verdicts.append(verdict)


class OneLease:
    """There is room for everything; what is held is known."""

    def __init__(self) -> None:
        self.held = set()
        self.asked = []

    async def take(self, request_id, number, candidates):
        await settle(3)
        self.asked.append([channel.id for channel, _ in candidates])
        self.held.add(number)
        return 0

    def give_back(self, request_id, number):
        self.held.remove(number)


async def late(runtime, *channels, route=ROUTE, **request):
    """A request whose first attempt was answered by nothing for the delay."""
    client = runtime.ask(*(channels or TWO), route=route, **request)
    await runtime.sent()
    await runtime.clock.advance(0.81)
    return client


def reasons(runtime) -> list[EndReason]:
    return [attempt.end_reason for attempt in runtime.recorder.one.attempts]


async def finish(runtime, number: int, *data: bytes) -> None:
    body = await runtime.streaming(*(data or (HELLO, STOP, USAGE, DONE)), number=number)
    body.end()
