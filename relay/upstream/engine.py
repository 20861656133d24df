"""The attempt engine: one per process. Starts relay requests, knows those that run, and ends them all.

The runtime behind `/v1`, the command-line probe and the tests. It asks the world only through ports.
"""

import asyncio
from collections.abc import Sequence

from relay.core.end_reasons import EndReason
from relay.core.request import RelayRequest
from relay.core.sse import DEFAULT_MAX_EVENT_BYTES
from relay.core.stream_state import DRAINS_PER_PROCESS
from relay.core.types import Channel
from relay.upstream.ports import Chance, Clock, Control, Recorder
from relay.upstream.running import RunningRequest
from relay.upstream.transports.contract import RelayTransport


class Engine:
    """`running`: request id → running request, from `start` until its outcome was reported."""

    def __init__(
        self,
        *,
        transport: RelayTransport,
        clock: Clock,
        chance: Chance,
        control: Control,
        recorder: Recorder,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.chance = chance
        self.control = control
        self.recorder = recorder
        self.max_event_bytes = max_event_bytes
        self.running: dict[str, RunningRequest] = {}
        self._drains = 0
        self._key_turns: dict[int, int] = {}

    def start(self, request: RelayRequest, candidates: Sequence[Channel]) -> RunningRequest:
        """Runs the request against the candidates, in their order. Needs the running loop."""
        running = RunningRequest(self, request, candidates)
        self.running[request.id] = running
        running.start()
        return running

    def stop_all(self, reason: EndReason) -> None:
        for running in list(self.running.values()):
            running.stop(reason)

    async def aclose(self, timeout_s: float = 10.0) -> None:
        """Ends what still runs (drains included) and waits for it. The transport is its owner's to close."""
        self.stop_all(EndReason.GATEWAY_SHUTDOWN)
        tasks = {running.task for running in self.running.values() if running.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    def next_key_turn(self, channel: Channel) -> int:
        """Round robin over a channel's keys, counted per process."""
        turn = self._key_turns.get(channel.id, -1) + 1
        self._key_turns[channel.id] = turn
        return turn

    def take_drain(self) -> bool:
        """A place for reading on after the client left; False when all are taken."""
        if self._drains >= DRAINS_PER_PROCESS:
            return False
        self._drains += 1
        return True

    def give_back_drain(self) -> None:
        self._drains -= 1
