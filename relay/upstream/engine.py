"""The attempt engine: one per process. Starts relay requests, knows those that run, and ends them all.

The runtime behind `/v1`, the command-line probe and the tests. It asks the world only through ports.
"""

import asyncio
from collections.abc import Iterable, Sequence

from relay.core.end_reasons import EndReason
from relay.core.failover import Candidate
from relay.core.hedging import HedgeCeiling
from relay.core.request import RelayRequest
from relay.core.selection import keys_in_order
from relay.core.sse import DEFAULT_MAX_EVENT_BYTES
from relay.core.stream_state import DRAINS_PER_PROCESS
from relay.core.types import Channel, UpstreamKey
from relay.upstream.choices import is_limited
from relay.upstream.ports import Chance, Clock, Control, Health, Leases, NoHealth, NoLeases, Recorder
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
        health: Health | None = None,
        leases: Leases | None = None,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.chance = chance
        self.control = control
        self.recorder = recorder
        self.health = health or NoHealth()
        self.leases = leases or NoLeases()
        self.max_event_bytes = max_event_bytes
        self.running: dict[str, RunningRequest] = {}
        self.hedges = HedgeCeiling()
        self._drains = 0
        self._key_turns: dict[int, int] = {}

    def first_choices(
        self, candidates: Sequence[Channel], fallbacks: Sequence[Candidate] = ()
    ) -> list[tuple[Channel, UpstreamKey]]:
        """Where a first attempt may go, best first: what admission leases from.

        None behind the first that has room in any case: a channel that is not looked at keeps its turn of
        keys. fallbacks: come after all candidates. Empty when all are out or cooling down.
        """
        choices = self._open_choices(candidates)
        if fallbacks and (not choices or is_limited(*choices[-1])):
            known = {channel.id for channel in candidates}
            choices += self._open_choices(one.channel for one in fallbacks if one.channel.id not in known)
        return choices

    def _open_choices(self, channels: Iterable[Channel]) -> list[tuple[Channel, UpstreamKey]]:
        choices: list[tuple[Channel, UpstreamKey]] = []
        for channel in channels:
            for key in self.keys_of(channel):
                if self.control.is_usable(channel, key) and not self.health.is_cooling(channel.id, key.id):
                    choices.append((channel, key))
                    if not is_limited(channel, key):
                        return choices
        return choices

    def start(
        self,
        request: RelayRequest,
        candidates: Sequence[Channel],
        *,
        first: tuple[Channel, UpstreamKey] | None = None,
        fallbacks: Sequence[Candidate] = (),
    ) -> RunningRequest:
        """Runs the request against the candidates, in their order. Needs the running loop.

        first: one of `first_choices`, leased by admission where it has a ceiling; the walk begins there.
        fallbacks: channels for other models, tried when all candidates have failed.
        """
        model = request.ask.model
        walked = [Candidate(channel, model) for channel in candidates]
        running = RunningRequest(self, request, [*walked, *fallbacks], first)
        self.running[request.id] = running
        self.hedges.note_request(self.clock.now())
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

    def keys_of(self, channel: Channel) -> tuple[UpstreamKey, ...]:
        """A channel's keys in the order in which one request tries them. Round robin counts per process."""
        if len(channel.keys) < 2:
            return channel.keys
        turn = self._key_turns.get(channel.id, -1) + 1
        self._key_turns[channel.id] = turn
        return keys_in_order(channel, turn, self.chance)

    def take_hedge(self) -> bool:
        """A place for a backup; False at a ceiling."""
        flags = self.control.flags()
        return self.hedges.take(
            self.clock.now(), max_share=flags.hedge_max_share, max_running=flags.hedge_max_running
        )

    def take_drain(self) -> bool:
        """A place for reading on after the client left; False when all are taken."""
        if self._drains >= DRAINS_PER_PROCESS:
            return False
        self._drains += 1
        return True

    def give_back_drain(self) -> None:
        self._drains -= 1
