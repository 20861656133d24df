"""HTTP around the relay: what broke for users of other gateways, through ours."""

import asyncio
import gzip
import random
import tracemalloc

import pytest

from billing.models import Attempt, RelayRequest
from channels_admin.services import channel_update, runtime_flag_set
from tests.flows.client import Call
from tests.flows.gateway import QUESTION, chat_body
from tests.flows.raw_http import request_bytes

JSON = ("Content-Type", "application/json")


async def test_an_http_1_0_client_gets_no_chunks(gateway):
    """Nginx speaks 1.0 to its upstreams unless told otherwise."""
    body = chat_body("echo-0", stream=True)
    heard = await gateway.ask("POST", "/v1/chat/completions", JSON, body=body, version="1.0")
    assert heard.header("transfer-encoding") is None
    assert heard.body.startswith(b"data: ")
    assert (heard.text, heard.is_done) == (QUESTION, True)
    row = await gateway.record(heard.request_id)
    assert row.end_reason == "completed"
    [attempt] = row.attempts.all()
    assert attempt.client_consumed, "although we close the connection behind the last byte"


async def test_one_connection_carries_streams_errors_and_whole_answers(gateway):
    """Each answer ends where the next begins."""
    headers = [("Authorization", f"Bearer {gateway.key}"), JSON]
    call = await Call.begin(gateway.server.host, gateway.server.port, b"")
    async with call:
        for model, stream, mark in [
            ("echo-0", True, b"[DONE]\n\n\r\n0\r\n\r\n"),
            ("status-500", True, b'"request_id":"'),
            ("echo-0", False, b'"total_tokens"'),
            ("error-mid", True, b"\n\n\r\n0\r\n\r\n"),
            ("echo-0", True, b"[DONE]\n\n\r\n0\r\n\r\n"),
        ]:
            body = chat_body(model, stream=stream)
            call.send(request_bytes("POST", "/v1/chat/completions", *headers, body=body, close=False))
            raw = await call.read_until(mark)
            assert raw.startswith(b"HTTP/1.1 ")
            await asyncio.sleep(0.01)
            call.forget()
    assert await gateway.count() == 5


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_is_joined_cleanly(gateway, suffix):
    base_url = gateway.simulator.base_url + suffix
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=base_url)
    assert (await gateway.chat("echo-0")).status == 200
    assert (await gateway.ask("GET", "/v1/own/thing")).status == 200
    assert [received.raw_path for received in gateway.simulator.requests] == [
        "/v1/chat/completions",
        "/v1/own/thing",
    ]


async def test_a_base_url_with_a_path_of_its_own(gateway):
    base_url = gateway.simulator.base_url + "/openai/v1"
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=base_url)
    assert (await gateway.chat("echo-0")).status == 200
    assert gateway.simulator.requests[0].raw_path == "/openai/v1/chat/completions"


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/embeddings"])
async def test_a_compressed_body_is_not_passed_on_as_something_else(gateway, target):
    """The header that says how to read it does not pass, so the bytes must not either."""
    body = gzip.compress(chat_body("echo-0"))
    heard = await gateway.ask("POST", target, JSON, ("Content-Encoding", "gzip"), body=body)
    assert (heard.status, heard.error["code"]) == (415, "unsupported_content_encoding")
    assert gateway.simulator.requests == []
    plain = await gateway.ask(
        "POST", target, JSON, ("Content-Encoding", "identity"), body=chat_body("echo-0")
    )
    assert plain.status == 200


async def test_the_clients_length_is_not_copied_to_a_changed_body(gateway):
    """The usage is asked for on the client's behalf: the body grows."""
    await gateway.chat("echo-0", stream=True)
    [received] = gateway.simulator.requests
    assert received.header("content-length") == str(len(received.body))
    assert received.json["stream_options"]


async def test_a_big_event_passes(gateway):
    heard = await gateway.chat("big-event-8mb", stream=True)
    assert heard.is_done
    assert len(heard.text) == 8 * 1024 * 1024


async def test_many_events_in_one_read_keep_their_order(gateway):
    heard = await gateway.chat("many-events-20000", stream=True)
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in heard.chunks]
    words = [text.strip() for text in texts if text]
    assert len(words) == 20_000
    assert words == [QUESTION.split()[number % 5] for number in range(20_000)]
    row = await gateway.record(heard.request_id)
    [attempt] = row.attempts.all()
    assert attempt.events >= 20_000


async def test_a_large_prompt_passes(gateway):
    heard = await gateway.chat("echo-0", text="word " * 400_000, stream=False, max_tokens=3)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert len(received.json["messages"][0]["content"]) == 2_000_000


UPLOADS = {
    "wrong key": ("/v1/chat/completions", "sk-" + "u" * 40, 401),
    "no key": ("/v1/files", None, 401),
    "withheld": ("/v1/organization/projects", "", 404),
    "unknown": ("/v1beta/files", "", 404),
}
PIECE = b"x" * 65_536


@pytest.mark.parametrize("upload", UPLOADS)
@pytest.mark.parametrize(
    "announced", [("Content-Length", "60000000"), ("Transfer-Encoding", "chunked")], ids=["length", "chunked"]
)
async def test_who_may_not_send_a_body_is_told_before_it(gateway, upload, announced):
    """Anybody could make the gateway hold 64 MiB a connection otherwise."""
    target, key, status = UPLOADS[upload]
    call = await gateway.begin("POST", target, JSON, announced, ("Expect", "100-continue"), key=key)
    async with call:
        raw = await call.read_until(b'"request', 1)  # its id, as any dialect spells it
        heard = call.heard()
    assert heard.status == status, raw
    assert heard.header("connection") == "close"
    assert gateway.simulator.requests == []


async def test_the_body_of_a_wrong_key_is_thrown_away(gateway):
    """Python's clients send everything before they read: they still get the answer, and we hold nothing."""
    tracemalloc.start()
    try:
        begun = await gateway.begin(
            "POST", "/v1/chat/completions", JSON, ("Content-Length", "60000000"), key="sk-" + "u" * 40
        )
        async with begun as call:
            for _ in range(60_000_000 // len(PIECE)):
                call.send(PIECE)
                await call.flushed()
            heard = await call.rest()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert heard.status == 401
    assert peak < 8_000_000


async def test_a_chunked_body_and_one_that_is_asked_for_pass(gateway):
    body = chat_body("echo-0")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:]))
    call = await gateway.begin("POST", "/v1/chat/completions", JSON, ("Transfer-Encoding", "chunked"))
    async with call:
        call.send(chunks + b"0\r\n\r\n")
        assert (await call.rest()).text == QUESTION
    expected = (("Content-Length", str(len(body))), ("Expect", "100-continue"))
    call = await gateway.begin("POST", "/v1/chat/completions", JSON, *expected)
    async with call:
        await call.read_until(b"HTTP/1.1 100 Continue\r\n\r\n")
        call.forget()
        call.send(body)
        assert (await call.rest()).text == QUESTION


async def test_a_target_longer_than_an_upstreams_url_may_become_is_414(gateway):
    target = "/v1/chat/completions?" + "x" * 40_000
    heard = await gateway.ask("POST", target, JSON, body=chat_body("echo-0"))
    assert (heard.status, heard.error["code"]) == (414, "url_too_long")
    assert not gateway.simulator.requests


async def test_a_body_over_the_limit_is_413_before_it_is_sent(gateway):
    length = ("Content-Length", "200000000")
    call = await gateway.begin("POST", "/v1/chat/completions", JSON, length)
    async with call:
        await call.read_until(b'"request_id":"', 1)
        heard = call.heard()
    assert (heard.status, heard.header("connection")) == (413, "close")


async def test_a_body_behind_an_upgrade_we_do_not_offer_passes(gateway):
    """As curl --http2 and Java's HttpClient ask for it on http://."""
    h2c = (("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk"))
    headers = (("Authorization", f"Bearer {gateway.key}"), JSON, *h2c)
    raw = request_bytes("POST", "/v1/chat/completions", *headers, body=chat_body("echo-0"), close=False)
    call = await Call.begin(gateway.server.host, gateway.server.port, raw)
    async with call:
        await call.read_until(b'"total_tokens"')
        await asyncio.sleep(0.02)
        assert call.heard().text == QUESTION
    [received] = gateway.simulator.requests
    assert received.header("upgrade") is None


MIXTURE = (
    "echo-0", "echo-1", "no-done", "error-mid", "cut-after-3", "eof-after-3", "status-500", "status-400", "html-200",
    "reset-before-headers", "slow-headers-0.05", "interval-0.02", "tool-call", "stall-after-1", "keepalive-then-answer",
)  # fmt: skip


async def test_a_crowd_leaves_nothing_and_is_recorded_once_each(gateway):
    """Everything at once, half of the clients impatient; the fixture looks for what is left.

    The only channel and key must stay in (no 429 in the mixture: its key would rest), for who is refused
    because there is none has no record.
    """
    await gateway.configure(runtime_flag_set, name="HEALTH_FAILURE_THRESHOLD", value=10_000)
    chance = random.Random(7)
    crowd = [(chance.choice(MIXTURE), chance.random() < 0.6, chance.random() < 0.5) for _ in range(150)]

    async def one(model: str, is_streamed: bool, is_impatient: bool) -> str | None:
        is_impatient = is_impatient or model == "stall-after-1"
        call = await gateway.begin_chat(model, stream=is_streamed)
        async with call:
            if not is_impatient:
                return (await call.rest(30)).request_id
            await asyncio.sleep(chance.random() * 0.3)
            getattr(call, chance.choice(["leave", "reset"]))()
            return None

    ids = await asyncio.gather(*(one(*member) for member in crowd))
    await gateway.recorded()
    told = {request_id for request_id in ids if request_id}
    recorded = await gateway.run(
        lambda: {str(pk) for pk in RelayRequest.objects.values_list("pk", flat=True)}
    )
    assert told <= recorded
    assert len(recorded) <= len(crowd)
    attempts = await gateway.run(lambda: list(Attempt.objects.values_list("request_id", "number")))
    assert len(attempts) == len(set(attempts))
    assert len({str(request) for request, _ in attempts}) == len(recorded), "each was tried"
    assert len(gateway.simulator.requests) <= len(attempts), (
        "who leaves while we dial has an attempt and no request"
    )
