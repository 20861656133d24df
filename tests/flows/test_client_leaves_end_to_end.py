"""The client goes away, politely or not, in every phase; or stays and does not read."""

import asyncio
import contextlib

import pytest

from channels_admin.services import channel_update, runtime_flag_set
from gateway import wiring
from relay.upstream.pump import Pump
from tests.factories.channels import a_policy
from tests.flows.client import Call
from tests.flows.gateway import chat_body
from tests.flows.leftovers import eventually, sockets_at
from tests.flows.raw_http import request_bytes

CLOSED_WITHIN_S = 0.1
TRIES = 3
"""The machine may be busy: one try of three must make it."""

PHASES = {
    "waiting for headers": ("slow-headers-9", True, None),
    "waiting for headers, whole": ("slow-headers-9", False, None),
    "waiting for the first byte": ("slow-first-byte-9", True, None),
    "waiting for the first event": ("keepalive-only", True, None),
    "waiting for the body, whole": ("slow-first-byte-9", False, None),
    "in mid-stream, silent": ("stall-after-3", True, b"three"),
    "in mid-stream, busy": ("interval-0.02", True, b"two"),
}


async def _leave_and_measure(gateway, call: Call, how: str) -> float:
    """Seconds from the client's leaving until the upstream saw its connection closed."""
    await eventually(lambda: not gateway.simulator.running_requests, "the upstream was never asked")
    await asyncio.sleep(0.02)
    getattr(call, how)()
    received = gateway.simulator.requests[-1]
    await eventually(lambda: received.left_at is None, "the upstream was never told", 3)
    return received.left_at - call.left_at


@pytest.mark.parametrize("how", ["leave", "reset"])
@pytest.mark.parametrize("phase", PHASES)
async def test_the_upstream_is_closed_at_once(gateway, phase, how):
    model, stream, mark = PHASES[phase]
    took = []
    for _ in range(TRIES):
        call = await gateway.begin_chat(model, text="one two three " * 200, stream=stream)
        async with call:
            if mark:
                await call.read_until(mark)
            took.append(await _leave_and_measure(gateway, call, how))
        if took[-1] < CLOSED_WITHIN_S:
            break
    assert took[-1] < CLOSED_WITHIN_S, took
    await gateway.idle()
    await eventually(lambda: gateway.simulator.open_connections, "an upstream connection stays open")
    client_ports = {gateway.server.port}
    await eventually(lambda: sockets_at(client_ports), "the client's connection stays open")
    assert len(gateway.simulator.requests) == len(took), "no further attempt for nobody"
    row = await _only_row(gateway, len(took))
    assert row.end_reason == "client_disconnected"
    assert row.status == (200 if mark else 499)
    [attempt] = row.attempts.all()
    assert (attempt.client_consumed, attempt.committed) == (False, bool(mark))


async def _only_row(gateway, expected: int):
    from billing.models import RelayRequest  # noqa: PLC0415  needs Django set up

    assert await gateway.count() == expected
    last = await gateway.run(lambda: RelayRequest.objects.order_by("-started_at").first().pk)
    return await gateway.record(last)


async def _answer_done_and_end_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An upstream whose body ends long behind its [DONE]; it does so on each request of a connection."""
    chunk = b'{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
    choice = b'{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}'
    events = b"data: %s\n\ndata: [DONE]\n\n" % (chunk % choice)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            start = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            writer.write(start + b"%x\r\n%s\r\n" % (len(events), events))
            await asyncio.sleep(0.25)
            writer.write(b"0\r\n\r\n")
    writer.close()


async def test_leaving_the_second_request_of_a_connection_whose_first_is_still_ending(gateway):
    """The first one's end must not take the second one's ear off the connection."""
    async with await asyncio.start_server(_answer_done_and_end_late, "127.0.0.1", 0) as upstream:
        port = upstream.sockets[0].getsockname()[1]
        await gateway.add_channel(f"http://127.0.0.1:{port}", priority=9, models=["late-end"])
        headers = [("Authorization", f"Bearer {gateway.key}"), ("Content-Type", "application/json")]

        def asked(model: str) -> bytes:
            body = chat_body(model, stream=True)
            return request_bytes("POST", "/v1/chat/completions", *headers, body=body, close=False)

        call = await Call.begin(gateway.server.host, gateway.server.port, asked("late-end"))
        async with call:
            await call.read_until(b"[DONE]\n\n\r\n0\r\n\r\n")
            call.forget()
            call.send(asked("stall-after-3"))
            await call.read_until(b"three")
            await asyncio.sleep(0.4)
            took = await _leave_and_measure(gateway, call, "reset")
        assert took < CLOSED_WITHIN_S
        await gateway.recorded()
    row = await _only_row(gateway, 2)
    assert row.end_reason == "client_disconnected"
    [attempt] = row.attempts.all()
    assert not attempt.client_consumed


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_leaving_during_the_upload_sends_nothing_upstream(gateway, how):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\nContent-Length: 500\r\n\r\n"
    call = await Call.begin(gateway.server.host, gateway.server.port, head.encode() + b'{"model":')
    async with call:
        await asyncio.sleep(0.05)
        getattr(call, how)()
        await eventually(lambda: sockets_at({gateway.server.port}), "the connection stays open")
    assert gateway.simulator.requests == []
    assert await gateway.count() == 0


@pytest.mark.parametrize("how", ["leave", "reset"])
async def test_leaving_during_failover_starts_no_further_attempt(gateway, how):
    """The first channel refuses at once, the second is slow, the third must never hear of it."""
    await gateway.configure(runtime_flag_set, name="CHANNEL_RETRY_TIMES", value=0)
    await gateway.configure(
        channel_update, channel_id=gateway.channel.pk, priority=9, model_mapping={"m": "status-503"}
    )
    url = gateway.simulator.base_url
    await gateway.add_channel(url, priority=5, model_mapping={"m": "slow-headers-9"})
    await gateway.add_channel(url, priority=1, model_mapping={"m": "echo-0"})
    call = await gateway.begin_chat("m", stream=True)
    async with call:
        await eventually(lambda: len(gateway.simulator.requests) < 2, "no failover")
        took = await _leave_and_measure(gateway, call, how)
    assert took < 3 * CLOSED_WITHIN_S
    await asyncio.sleep(0.1)
    assert [received.model for received in gateway.simulator.requests] == ["status-503", "slow-headers-9"]
    row = await _only_row(gateway, 1)
    assert (row.end_reason, row.status) == ("client_disconnected", 499)
    assert [attempt.end_reason for attempt in row.attempts.all()] == [
        "upstream_rejected",
        "client_disconnected",
    ]


async def test_a_client_that_leaves_after_the_end_mark_was_served(gateway, monkeypatch):
    call = await gateway.begin_chat("echo-0", stream=True)
    async with call:
        await call.read_until(b"[DONE]\n\n")
        call.leave()
    row = await _only_row(gateway, 1)
    assert row.end_reason == "completed"


async def test_leaving_when_only_the_usage_is_outstanding(gateway, fixed_limits):
    """Every choice has finished: the answer is whole, and the usage is waited for a little longer."""
    fixed_limits(usage_wait_s=0.4)
    call = await gateway.begin_chat("finish-then-silence", stream=True)
    async with call:
        await call.read_until(b'"finish_reason":"stop"')
        call.leave()
        await asyncio.sleep(0.1)
        assert gateway.simulator.requests[0].left_at is None
    row = await _only_row(gateway, 1)
    assert row.end_reason == "completed_without_terminal"


async def test_drain_reads_on_for_the_exact_usage(gateway):
    policy = await gateway.run(a_policy, disconnect_policy="drain")
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy=policy)
    call = await gateway.begin_chat("echo-30", stream=True)
    async with call:
        await call.read_until(b"two")
        call.reset()
    row = await _only_row(gateway, 1)
    [received] = gateway.simulator.requests
    assert received.left_at is None
    assert received.finished_at is not None
    assert row.end_reason == "client_disconnected"
    assert (row.usage.output, row.usage.source) == (5, "reported")


@pytest.mark.parametrize(
    ("model", "stream", "reason"),
    [
        ("many-events-100000", True, "client_too_slow"),
        ("big-event-24mb", False, "completed"),  # the upstream's part was over before the first write
    ],
)
async def test_a_client_that_never_reads(gateway, monkeypatch, model, stream, reason):
    monkeypatch.setitem(Pump.__init__.__kwdefaults__, "write_timeout_s", 0.4)
    call = await _begin_without_reading(gateway, model, {"stream": stream})
    async with call:
        await eventually(lambda: not gateway.simulator.requests, "the upstream was never asked")
        await eventually(lambda: not wiring.current().engine.running, "not begun", 5)
        await eventually(lambda: wiring.current().engine.running, "the slow client was never ended", 20)
        heard = await call.rest()
    assert heard.is_reset, "a plain close would wait for the unsent bytes for ever"
    assert not heard.is_whole
    await eventually(lambda: sockets_at({gateway.server.port}), "the connection stays open")
    row = await _only_row(gateway, 1)
    assert row.end_reason == reason
    [attempt] = row.attempts.all()
    assert not attempt.client_consumed
    [received] = gateway.simulator.requests
    assert (received.left_at is not None) == stream


async def _begin_without_reading(gateway, model: str, fields: dict) -> Call:
    from tests.flows.gateway import chat_body  # noqa: PLC0415  needs Django set up

    json_type = ("Content-Type", "application/json")
    body = chat_body(model, **fields)
    call = await gateway.begin("POST", "/v1/chat/completions", json_type, body=body, receive_buffer=4096)
    call.stop_reading()
    return call


async def test_keepalives_come_on_time_and_between_events(gateway, monkeypatch):
    monkeypatch.setitem(Pump.__init__.__kwdefaults__, "keepalive_s", 0.25)
    heard = await gateway.chat("long-silence-1.1", stream=True)
    frames = heard.body.split(b"\n\n")
    comments = [at for at, frame in enumerate(frames) if frame.startswith(b":")]
    assert len(comments) == 4, "one after 0.25 s, 0.5 s, 0.75 s and 1 s"
    assert all(frame in {b"", b": keepalive"} or frame.startswith(b"data: ") for frame in frames)
    assert comments == list(range(comments[0], comments[0] + 4)), "all in the silence"
    assert heard.is_done
    [attempt] = (await gateway.record(heard.request_id)).attempts.all()
    assert attempt.keepalives == 4


async def test_no_keepalive_before_the_answer_has_begun(gateway, monkeypatch):
    """Nothing goes out before the commit point, so another channel may still answer."""
    monkeypatch.setitem(Pump.__init__.__kwdefaults__, "keepalive_s", 0.05)
    heard = await gateway.chat("slow-first-event-0.5", stream=True)
    first = heard.body.split(b"\n\n")[0]
    assert first.startswith(b"data: ")
