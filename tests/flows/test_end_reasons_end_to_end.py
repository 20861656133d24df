"""Every end that an upstream can cause, seen by the client over a socket and in the record.

Each row names the simulator's behaviour; the expectations are those of the table of end reasons.
"""

import socket
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

from channels_admin.services import channel_update
from gateway import wiring
from tests.factories.channels import a_policy


@pytest.fixture(autouse=True)
def no_repeats(monkeypatch):
    """One attempt a request, so that the request ends as its upstream behaves."""
    monkeypatch.setenv("CHANNEL_RETRY_TIMES", "0")


@dataclass(frozen=True)
class Row:
    """text: what of the answer the client has when it ends. error: it is told of a failure."""

    model: str
    reason: str
    status: int = 200
    text: str | None = None
    error: bool = False
    done: bool = False
    terminal_seen: bool = False
    code: str | None = None
    policy: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.model


WORDS = "one two three four five"
THREE = "one two three"

STREAMED = [
    Row("echo-0", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("close-delimited", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("double-done", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("unterminated-done", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("early-hints", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("trailers", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("gzip-sse", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("text-plain-sse", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("one-byte-writes", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("crlf", "completed", done=True, terminal_seen=True),
    Row("keepalive-then-answer", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("no-done", "completed_without_terminal", text=WORDS, done=True),
    Row("finish-then-reset", "completed_without_terminal", text=WORDS, done=True),
    Row("finish-then-silence", "completed_without_terminal", text=WORDS, done=True),
    Row("eof-after-3", "incomplete", text=THREE, error=True),
    Row("cut-after-3", "upstream_reset", text=THREE, error=True),
    Row("fin-after-3", "upstream_reset", text=THREE, error=True),
    Row("error-mid", "upstream_error_event", text=THREE, error=True),
    Row("vendor-error-detail-mid", "upstream_error_event", text=THREE, error=True),
    Row("vendor-error-object-mid", "upstream_error_event", text=THREE, error=True),
    Row("vendor-error-event-mid", "upstream_error_event", text=THREE, error=True),
    Row("not-json-mid", "completed", text=WORDS, done=True, terminal_seen=True),
    Row("stall-after-3", "idle_timeout", text=THREE, error=True, policy={"idle_timeout_seconds": 1}),
    Row("comments-after-3", "idle_timeout", text=THREE, error=True, policy={"event_idle_timeout_seconds": 0.4}),
    Row("interval-0.3", "total_timeout", text="one two three", error=True, policy={"total_timeout_seconds": 0.75}),
    # Before the commit point: a real status, and nothing of an answer.
    Row("cut-after-0", "upstream_reset", 502, error=True),
    Row("preamble-only", "incomplete", 502, error=True),
    Row("error-in-200", "upstream_error_event", 502, error=True, code="overloaded"),
    Row("error-first-event", "upstream_error_event", 502, error=True, code="overloaded"),
    Row("error-after-preamble", "upstream_error_event", 502, error=True, code="overloaded"),
    Row("vendor-error-detail", "upstream_error_event", 502, error=True),
    Row("html-200", "bad_content_type", 502, error=True),
    Row("json-for-sse", "bad_content_type", 502, error=True),
    Row("empty-200", "empty_response", 502, error=True),
    Row("done-only", "empty_response", 502, error=True, terminal_seen=True),
    Row("not-json-first", "upstream_protocol_error", 502, error=True),
    Row("reset-before-headers", "upstream_reset", 502, error=True),
    Row("close-before-headers", "upstream_reset", 502, error=True),
    Row("bad-status-line", "upstream_protocol_error", 502, error=True),
    Row("big-header-100kb", "upstream_protocol_error", 502, error=True),
    Row("status-500", "upstream_rejected", 500, error=True),
    Row("status-503", "upstream_rejected", 503, error=True),
    Row("status-422", "upstream_rejected", 422, error=True),
    Row("429-retry-after-7", "upstream_rejected", 429, error=True, code="rate_limit_exceeded"),
    Row("context-length", "upstream_rejected", 400, error=True, code="context_length_exceeded"),
    Row("model-not-found", "upstream_rejected", 404, error=True, code="model_not_found"),
    Row("refuse-keys", "upstream_rejected", 502, error=True, code="upstream_credentials_exhausted"),
    Row("status-403", "upstream_rejected", 502, error=True, code="upstream_credentials_exhausted"),
    Row("redirect-302", "upstream_rejected", 502, error=True),
    Row("slow-headers-5", "header_timeout", 504, error=True, policy={"header_timeout_seconds": 0.3}),
    Row("slow-first-byte-5", "first_byte_timeout", 504, error=True),
    Row("keepalive-only", "first_event_timeout", 504, error=True, policy={"first_event_timeout_seconds": 0.6}),
]  # fmt: skip

WHOLE = [
    Row("echo", "completed", text=WORDS),
    Row("sse-for-json", "completed", text=WORDS),
    Row("gzip-sse", "completed", text=WORDS),
    Row("text-plain-sse", "completed", text=WORDS),
    Row("error-in-200", "upstream_error_event", 502, error=True),
    Row("vendor-error-detail", "upstream_error_event", 502, error=True),
    Row("html-200", "bad_content_type", 502, error=True),
    Row("not-json-first", "upstream_protocol_error", 502, error=True),
    Row("not-json-mid", "upstream_protocol_error", 502, error=True),
    Row("empty-200", "empty_response", 502, error=True),
    Row("cut-after-1", "upstream_reset", 502, error=True),
    Row("fin-after-1", "upstream_reset", 502, error=True),
    Row("short-body", "upstream_reset", 502, error=True),
    Row("reset-before-headers", "upstream_reset", 502, error=True),
    Row("status-500", "upstream_rejected", 500, error=True),
    Row("refuse-keys", "upstream_rejected", 502, error=True, code="upstream_credentials_exhausted"),
    Row("redirect-307", "upstream_rejected", 502, error=True),
]


@pytest.fixture
def short_limits(fixed_limits):
    """The fixed timers: first byte 30 s, usage 5 s."""
    fixed_limits(first_byte_s=0.8, usage_wait_s=0.3)


async def _ask(gateway, row: Row, **fields):
    if row.policy:
        policy = await gateway.run(a_policy, **row.policy)
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, policy=policy)
    return await gateway.chat(row.model, **fields)


async def _check_record(gateway, heard, row: Row):
    record = await gateway.record(heard.request_id)
    [attempt] = record.attempts.all()
    assert (record.end_reason, attempt.end_reason) == (row.reason, row.reason)
    assert record.status == row.status
    assert attempt.committed == (row.status == 200)
    assert attempt.stream_finished == (not row.error)
    return attempt


def _check_refusal(heard, row: Row):
    assert heard.header("content-type") == "application/json"
    assert set(heard.error) >= {"message", "type", "param", "code"}
    assert heard.request_id in heard.body.decode()
    if row.code:
        assert heard.error["code"] == row.code


@pytest.mark.parametrize("row", STREAMED, ids=str)
async def test_a_streams_end(gateway, short_limits, row):
    heard = await _ask(gateway, row, stream=True)
    assert heard.status == row.status
    assert heard.is_whole, "HTTP itself always ends well: the error is told inside"
    if row.status == 200:
        assert heard.header("content-type").startswith("text/event-stream")
        assert bool(heard.stream_error) == row.error
        assert heard.is_done == row.done
        assert heard.body.count(b"[DONE]") == int(row.done)
        if row.text is not None:
            assert heard.text.rstrip() == row.text
    else:
        _check_refusal(heard, row)
    attempt = await _check_record(gateway, heard, row)
    assert attempt.terminal_seen == row.terminal_seen
    assert len(gateway.simulator.requests) == 1, "one candidate, one attempt; redirects are not followed"


@pytest.mark.parametrize("row", WHOLE, ids=str)
async def test_a_whole_answers_end(gateway, row):
    heard = await _ask(gateway, row)
    assert heard.status == row.status
    assert heard.is_whole
    if row.status == 200:
        assert heard.text.rstrip() == row.text
    else:
        _check_refusal(heard, row)
    await _check_record(gateway, heard, row)
    assert len(gateway.simulator.requests) == 1


async def test_a_broken_chunk(gateway):
    """The good piece may come in one read with the bad one: then nothing was answered yet."""
    heard = await gateway.chat("bad-chunk", stream=True)
    told = heard.stream_error if heard.status == 200 else heard.error
    assert told
    assert not heard.is_done
    record = await gateway.record(heard.request_id)
    assert record.end_reason in {"upstream_protocol_error", "upstream_reset"}


async def test_a_broken_frame_is_counted_and_not_relayed(gateway):
    heard = await gateway.chat("not-json-mid", stream=True)
    [attempt] = (await gateway.record(heard.request_id)).attempts.all()
    assert attempt.soft_error_count == 1
    assert attempt.soft_errors[0]["offset"] > 0
    assert b"broken" not in heard.body


async def test_retry_after_reaches_the_client(gateway):
    heard = await gateway.chat("429-retry-after-7", stream=True)
    assert heard.header("retry-after") == "7"


async def test_a_whole_answer_that_takes_too_long(gateway):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, non_stream_timeout_seconds=0.4)
    row = Row("slow-headers-5", "non_stream_timeout", 504, error=True)
    heard = await gateway.chat(row.model)
    assert heard.status == 504
    _check_refusal(heard, row)
    await _check_record(gateway, heard, row)


async def test_an_upstream_that_is_not_there(gateway):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=nowhere)
    row = Row("echo", "connect_failed", 502, error=True)
    heard = await gateway.chat("echo", stream=True)
    assert heard.status == 502
    _check_refusal(heard, row)
    assert nowhere.removeprefix("http://") not in heard.body.decode()
    attempt = await _check_record(gateway, heard, row)
    assert not attempt.upstream_connected


@pytest.mark.parametrize("asked_as_stream", [True, False])
async def test_an_answer_over_the_cap(gateway, monkeypatch, asked_as_stream):
    monkeypatch.setattr(wiring.current().engine, "max_event_bytes", 50_000)
    monkeypatch.setattr("relay.upstream.readings.common.MAX_WHOLE_BYTES", 50_000)
    row = Row("big-event-1mb", "response_too_large", 502, error=True, code="response_too_large")
    heard = await gateway.chat(row.model, stream=asked_as_stream)
    assert heard.status == 502
    _check_refusal(heard, row)
    await _check_record(gateway, heard, row)


async def test_a_bug_of_ours_is_told_and_recorded(gateway, monkeypatch, caplog):
    secret = uuid.uuid4().hex  # in no source line, which a traceback may show

    def fails(*args, **kwargs):
        raise RuntimeError(secret)

    monkeypatch.setattr("relay.upstream.attempt.upstream_request", fails)
    heard = await gateway.chat("echo", stream=True)
    assert heard.status == 500
    assert heard.error["code"] == "gateway_error"
    record = await gateway.record(heard.request_id)
    assert record.end_reason == "gateway_error"
    assert secret not in caplog.text + heard.body.decode()


@pytest.mark.parametrize(
    "reason", ["revoked", "stopped_by_operator", "balance_exhausted", "gateway_shutdown"]
)
async def test_an_end_from_our_side_in_mid_stream(gateway, reason):
    from relay.core.end_reasons import EndReason  # noqa: PLC0415  beside its only use

    call = await gateway.begin_chat("stall-after-3", stream=True)
    async with call:
        await call.read_until(b"three")
        wiring.current().engine.stop_all(EndReason(reason))
        heard = await call.rest()
    assert heard.stream_error is not None
    assert not heard.is_done
    record = await gateway.record(heard.request_id)
    assert (record.status, record.end_reason) == (200, reason)
