"""The engine on real sockets: upstreams that count what they received, channels with several keys."""

import contextlib
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest

from relay.core import failover
from relay.core.health import AttemptVerdict
from relay.core.types import Channel, PlainSecret, RelayFlags, UpstreamKey
from relay.upstream.aio_tasks import running_task_names
from relay.upstream.engine import Engine
from relay.upstream.transports.build import build_transport
from tests.fakes.runtime import Client, KeptOutcomes, StaticControl, a_request, an_engine
from tests.fakes.scripted_upstream import Cut, Reset, Script, ScriptedUpstream, Send, WaitLost, ok

LOOPBACK = [ip_network("127.0.0.0/8")]
JSON = b"content-type: application/json"

SCRIPTS = {
    "reset": [Reset()],
    "cut before headers": [Cut()],
    "cut in the body": [Send(b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\ncontent-length: 100\r\n\r\n{"), Cut()],
    "empty 2xx": [Send(ok(b"", JSON))],
    "html 2xx": [Send(ok(b"<html>", b"content-type: text/html"))],
    "no json 2xx": [Send(ok(b"<html>", JSON))],
    "error 2xx": [Send(ok(b'{"error":{"message":"no","type":"server_error"}}', JSON))],
    "silence": [WaitLost()],
    "silence in the body": [
        Send(b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\ncontent-length: 9\r\n\r\n{"),
        WaitLost(),
    ],
}
"""Ways to fail without an error status; `refused` is a port where nobody listens."""

PICTURE = b'{"created":1,"data":[{"b64_json":"aGVsbG8="}]}'


def script_of(outcome: int | str | Script) -> Script:
    """A status, one of `SCRIPTS`, or a script as it is."""
    if isinstance(outcome, list):
        return outcome
    if isinstance(outcome, str):
        return SCRIPTS[outcome]
    body = b'{"error":{"message":"busy","type":"server_error"}}'
    return [Send(ok(body, JSON, status=b"%d Told" % outcome))]


@dataclass
class KeptHealth:
    verdicts: list[AttemptVerdict] = field(default_factory=list)
    cooling: set[tuple[int, int]] = field(default_factory=set)

    def is_cooling(self, channel_id: int, key_id: int) -> bool:
        return (channel_id, key_id) in self.cooling

    def note(self, verdict: AttemptVerdict) -> None:
        self.verdicts.append(verdict)
        if verdict.cooldown_s:
            self.cooling.add((verdict.channel_id, verdict.key_id))


@dataclass
class Bench:
    """Channels 1, 2, … each with an upstream of its own; key 12 is the second key of channel 1."""

    engine: Engine
    control: StaticControl
    recorder: KeptOutcomes
    health: KeptHealth
    stack: contextlib.AsyncExitStack
    upstreams: list[ScriptedUpstream] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)

    async def channel(
        self, outcome: int | str | Script, *more: int | str | Script, keys: int = 1, **fields
    ) -> None:
        """Fails as told, request by request; the last way repeats."""
        number = len(self.channels) + 1
        if outcome == "refused":
            upstream = ScriptedUpstream([])
            async with upstream:
                base_url = upstream.url
        else:
            scripts = [script_of(one) for one in (outcome, *more)]
            upstream = await self.stack.enter_async_context(ScriptedUpstream(*scripts))
            base_url = upstream.url
        made = tuple(
            UpstreamKey(number * 10 + n, f"k{n}", PlainSecret(f"sk-{number * 10 + n}"))
            for n in range(1, keys + 1)
        )
        self.upstreams.append(upstream)
        self.channels.append(
            Channel(
                id=number,
                name=f"c{number}",
                kind="openai",
                base_url=base_url,
                models=("m",),
                keys=made,
                **fields,
            )
        )

    def begin(self, **asked) -> Client:
        asked = {"received_at": self.engine.clock.now(), **asked}
        return Client(self.engine.start(a_request(**asked), self.channels))

    async def ask(self, **asked) -> Client:
        return await self.begin(**asked).end()

    async def draw(self, path: str = "/v1/images/generations", **asked) -> Client:
        return await self.ask(path=path, dialect="opaque", stream=False, **asked)

    @property
    def received(self) -> list[int]:
        """Keys in the order in which attempts used them, as the upstreams and the record tell it alike."""
        [outcome] = self.recorder.outcomes
        attempted = [attempt.upstream_key_id for attempt in outcome.attempts]
        seen = sorted(
            int(request.headers[b"authorization"].removeprefix(b"Bearer sk-"))
            for upstream in self.upstreams
            for request in upstream.requests
        )
        unseen = {a.upstream_key_id for a in outcome.attempts if a.end_reason == "connect_failed"}
        assert seen == sorted(key for key in attempted if key not in unseen)
        assert [v.key_id for v in self.health.verdicts] == attempted, "each attempt is told to health once"
        return attempted


@pytest.fixture
async def bench(monkeypatch):
    monkeypatch.setattr(failover, "MIN_PAUSE_S", 0.001)
    monkeypatch.setattr(failover, "FIRST_PAUSE_S", 0.001)
    transport = build_transport(LOOPBACK)
    await transport.start()
    recorder, control, health = KeptOutcomes(), StaticControl(RelayFlags()), KeptHealth()
    async with contextlib.AsyncExitStack() as stack:
        engine = an_engine(transport, recorder=recorder, control=control, health=health)
        yield Bench(engine, control, recorder, health, stack)
        await engine.aclose()
        await transport.aclose()
        assert not engine.running, "a relay request was left running"
        assert not [name for name in running_task_names() if name.startswith("relay-")], "a task was left"
