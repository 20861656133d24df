"""`/v1/messages` over sockets: what passes, what is recorded, and errors in the shape of that API."""

import pytest

from channels_admin.services import channel_update
from tests.factories.channels import an_api_key, an_upstream_key
from tests.flows.gateway import QUESTION, chat_body

JSON = ("Content-Type", "application/json")
VERSION = ("anthropic-version", "2023-06-01")


@pytest.fixture
async def anthropics(gateway):
    """The gateway's one channel is of Anthropic's kind."""
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, kind="anthropic")
    return gateway


async def asked(gateway, model, *headers, path="/v1/messages", key="", **fields):
    body = chat_body(model, max_tokens=1024, **fields)
    return await gateway.ask("POST", path, JSON, VERSION, *headers, body=body, key=key)


async def test_a_stream_is_passed_and_recorded(anthropics):
    heard = await asked(anthropics, "usage-cache-writes", stream=True)
    assert heard.status == 200
    assert (heard.header("content-type") or "").startswith("text/event-stream")
    assert heard.header("request-id") == heard.request_id
    assert heard.is_whole
    assert heard.body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    record = await anthropics.record(heard.request_id)
    assert (record.end_reason, record.dialect, record.path) == ("completed", "anthropic", "/v1/messages")
    usage = record.usage
    assert (usage.input, usage.cached_input, usage.cache_write_5m, usage.cache_write_1h) == (127, 20, 40, 60)
    assert usage.output == 5


@pytest.mark.parametrize(
    ("model", "prompt"), [("usage-zero-at-end", 5), ("usage-cached", 5), ("no-event-lines", 5)]
)
async def test_usage_oddities_are_recorded_as_they_are_meant(anthropics, model, prompt):
    heard = await asked(anthropics, model, stream=True)
    record = await anthropics.record(heard.request_id)
    assert (record.usage.input, record.usage.output) == (prompt, 5)


async def test_usage_that_never_came_is_estimated(anthropics):
    heard = await asked(anthropics, "usage-missing", stream=True)
    record = await anthropics.record(heard.request_id)
    assert record.usage.source == "estimated"
    assert (record.usage.input, record.usage.output) == (5, 5)


async def test_what_arrived_of_a_broken_stream_is_estimated(anthropics):
    """Three words came; the one token that `message_start` speaks of is not what is paid."""
    heard = await asked(anthropics, "eof-after-3", stream=True)
    record = await anthropics.record(heard.request_id)
    assert (record.end_reason, record.usage.source) == ("incomplete", "estimated")
    assert record.usage.output >= 3


async def test_another_key_is_tried_for_an_account_without_credit(anthropics):
    await anthropics.configure(an_upstream_key, anthropics.channel)
    heard = await asked(anthropics, "credit-too-low")
    assert heard.status == 502
    assert len({received.header("x-api-key") for received in anthropics.simulator.requests}) == 2


@pytest.mark.parametrize(
    ("status", "kind", "code", "request_of"),
    [
        (401, "authentication_error", "missing_api_key", {"key": None}),
        (401, "authentication_error", "invalid_api_key", {"key": "sk-" + "u" * 40}),
        (404, "not_found_error", "unknown_url", {"path": "/v1/messages/batches"}),
        (404, "not_found_error", "unknown_url", {"path": "/v1/messages/batches/msgbatch_1/cancel"}),
    ],
)
async def test_refusals_in_the_shape_of_this_api(anthropics, status, kind, code, request_of):
    heard = await asked(anthropics, "echo-0", **request_of)
    assert heard.status == status
    body = heard.json()
    assert set(body) == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert (body["error"]["type"], body["error"]["details"]["error_code"]) == (kind, code)
    assert body["error"]["message"]
    assert body["request_id"] == heard.request_id == heard.header("request-id")
    assert anthropics.simulator.requests == []


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("GET", b"", 405),
        ("DELETE", b"", 405),
        ("POST", b"{", 400),
        ("POST", b'{"model":"m"}', 400),
        ("POST", b'{"model":"m","messages":"x"}', 400),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_bad_requests_in_the_shape_of_this_api(anthropics, method, body, status, path):
    heard = await anthropics.ask(method, path, JSON, body=body)
    assert (heard.status, heard.json()["type"], heard.error["type"]) == (
        status,
        "error",
        "invalid_request_error",
    )
    assert anthropics.simulator.requests == []


async def test_a_compressed_request_is_refused_in_the_shape_of_this_api(anthropics):
    heard = await anthropics.ask("POST", "/v1/messages", ("Content-Encoding", "gzip"), body=b"x")
    assert (heard.status, heard.error["type"]) == (415, "invalid_request_error")


async def test_channels_are_asked_in_their_own_dialect_only(gateway):
    """One model, a channel of each kind: each request goes to the channel that speaks its dialect."""
    theirs = await gateway.add_channel(gateway.simulator.base_url, kind="anthropic", models=["*"])
    heard = [await asked(gateway, "echo-0"), await gateway.chat("echo-0")]
    assert [received.path for received in gateway.simulator.requests] == [
        "/v1/messages",
        "/v1/chat/completions",
    ]
    records = [await gateway.record(one.request_id) for one in heard]
    assert [record.attempts.all()[0].channel_id for record in records] == [theirs.pk, gateway.channel.pk]


async def test_failover_stays_among_channels_of_the_kind(gateway):
    await gateway.add_channel(gateway.simulator.base_url, kind="anthropic", models=["*"])
    heard = await asked(gateway, "status-529")
    assert heard.status == 529
    assert heard.error == {"type": "overloaded_error", "message": heard.error["message"]}
    assert {received.path for received in gateway.simulator.requests} == {"/v1/messages"}


async def test_a_model_behind_other_kinds_is_told_apart_from_one_that_is_unknown(gateway):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["gpt-4o"])
    heard = await asked(gateway, "gpt-4o")
    assert heard.status == 404
    assert "not available on this endpoint" in heard.error["message"]
    _, key = await gateway.configure(an_api_key, gateway.tenant, allowed_models=["another"])
    hidden = await asked(gateway, "gpt-4o", key=key)
    assert hidden.status == 404
    assert "does not exist" in hidden.error["message"], "a key that may not use a model does not hear of it"
    assert gateway.simulator.requests == []


async def test_a_channel_of_the_kind_without_a_key_is_unavailable_not_unknown(gateway):
    await gateway.add_channel(gateway.simulator.base_url, kind="anthropic", models=["claude-a"], keys=0)
    heard = await asked(gateway, "claude-a")
    assert (heard.status, heard.error["type"]) == (503, "overloaded_error")
    assert heard.header("retry-after")


async def test_a_question_may_hold_any_text(anthropics):
    heard = await asked(anthropics, "echo-0", text=QUESTION + " \u2028 😀 größe")
    assert heard.json()["content"][0]["text"] == QUESTION + " \u2028 😀 größe"
