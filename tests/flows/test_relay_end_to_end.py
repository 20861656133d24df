"""Requests through the front door, and what is recorded of them."""

import uuid

import orjson
import pytest
from django.utils import timezone

from billing.tasks import record_settled
from channels_admin.services import channel_update
from tests.factories.channels import a_tenant, an_api_key
from tests.flows.gateway import QUESTION, UPSTREAM_SECRET


async def test_a_stream_end_to_end(gateway):
    heard = await gateway.chat("echo", stream=True)
    assert heard.status == 200
    assert heard.header("content-type") == "text/event-stream; charset=utf-8"
    assert heard.header("cache-control") == "no-cache"
    assert heard.header("x-accel-buffering") == "no"
    assert heard.header("content-length") is None
    assert heard.header("content-encoding") is None
    assert heard.header("x-relay-attempts") == "1"
    assert heard.text == QUESTION
    assert heard.is_done
    assert heard.is_whole
    assert all(chunk["choices"] for chunk in heard.chunks), "a usage chunk nobody asked for"


async def test_usage_comes_to_a_client_that_asks_for_it(gateway):
    heard = await gateway.chat("echo", stream=True, stream_options={"include_usage": True})
    [with_usage] = [chunk for chunk in heard.chunks if chunk.get("usage")]
    assert with_usage["choices"] == []
    assert with_usage["usage"]["completion_tokens"] == 5


async def test_a_whole_answer_end_to_end(gateway):
    heard = await gateway.chat("echo")
    assert heard.status == 200
    assert heard.header("content-type") == "application/json"
    assert heard.header("content-length") == str(len(heard.body))
    assert heard.header("x-upstream-request-id").startswith("req_sim_")
    assert heard.text == QUESTION
    assert heard.json()["usage"]["completion_tokens"] == 5


async def test_the_upstream_gets_the_clients_question_and_the_channels_key(gateway):
    await gateway.chat("echo", stream=True, temperature=0.25, unknown_field={"kept": [1, None]})
    [received] = gateway.simulator.requests
    assert received.path == "/v1/chat/completions"
    assert received.header("authorization") == f"Bearer {UPSTREAM_SECRET}"
    assert received.json["temperature"] == 0.25
    assert received.json["unknown_field"] == {"kept": [1, None]}
    assert received.json["stream_options"] == {"include_usage": True}, "usage is asked for to bill with"


async def test_the_first_event_does_not_wait_for_the_second(gateway):
    call = await gateway.begin_chat("long-silence-2", stream=True)
    async with call:
        await call.read_until(b'"content":"one', within_s=1)


async def test_a_streams_record(gateway):
    before = timezone.now()
    heard = await gateway.chat("echo-20", ("X-Client-Request-Id", "mine-7"), stream=True)
    row = await gateway.record(heard.request_id)
    assert (row.tenant_id, row.api_key_id) == (gateway.tenant.pk, gateway.api_key.pk)
    assert (row.method, row.path, row.family, row.dialect) == (
        "POST", "/v1/chat/completions", "chat", "openai_chat",
    )  # fmt: skip
    assert (row.model_asked, row.model_answered) == ("echo-20", "echo-20")
    assert (row.status, row.end_reason, row.stream_asked) == (200, "completed", True)
    assert row.client_request_id == "mine-7"
    assert (row.message_count, row.tool_count) == (1, 0)
    assert row.request_bytes > len(QUESTION)
    assert row.response_bytes == len(heard.body)
    assert before <= row.started_at <= timezone.now()
    assert (row.usage.input, row.usage.output, row.usage.source) == (5, 5, "reported")


async def test_an_attempts_record(gateway):
    heard = await gateway.chat("echo-20", stream=True)
    [attempt] = (await gateway.record(heard.request_id)).attempts.all()
    assert (attempt.number, attempt.channel_id, attempt.channel_name) == (1, gateway.channel.pk, "simulator")
    assert attempt.upstream_host == gateway.simulator.base_url.removeprefix("http://")
    assert attempt.model_sent == "echo-20"
    assert (attempt.stream_asked, attempt.stream_sent) == (True, True)
    assert (attempt.end_reason, attempt.status, attempt.error_class) == ("completed", 200, "")
    assert attempt.finish_reasons == ["stop"]
    assert attempt.soft_error_count == 0
    assert attempt.upstream_request_id.startswith("req_sim_")
    conclusions = (
        "upstream_connected",
        "stream_processed",
        "stream_finished",
        "usage_complete",
        "client_consumed",
    )
    assert {name: getattr(attempt, name) for name in conclusions} == dict.fromkeys(conclusions, True)
    assert attempt.terminal_seen
    assert attempt.committed
    assert attempt.bytes > 0
    assert attempt.events >= 7, "role, five words, finish"


async def test_timings_are_in_the_order_of_events(gateway):
    heard = await gateway.chat("echo-30", stream=True)
    row = await gateway.record(heard.request_id)
    [attempt] = row.attempts.all()
    order = [
        attempt.connect_ms,
        attempt.header_ms,
        attempt.first_byte_ms,
        attempt.first_event_ms,
        attempt.duration_ms,
    ]
    assert order == sorted(order), order
    assert order[0] > 0
    words_ms = 4 * 30
    assert words_ms - 5 <= attempt.duration_ms - attempt.first_event_ms <= words_ms + 500
    assert attempt.duration_ms <= row.duration_ms <= attempt.duration_ms + 500
    assert attempt.first_event_ms <= row.first_event_ms <= attempt.first_event_ms + 200
    assert row.started_at <= attempt.last_event_at <= timezone.now()


async def test_a_second_request_reuses_the_upstream_connection(gateway):
    for _ in range(5):
        await gateway.chat("echo-0", stream=True)
    assert gateway.simulator.open_connections == 1


async def test_a_whole_answers_record(gateway):
    heard = await gateway.chat("echo")
    row = await gateway.record(heard.request_id)
    [attempt] = row.attempts.all()
    assert (row.status, row.end_reason, row.stream_asked) == (200, "completed", False)
    assert (attempt.stream_sent, attempt.committed, attempt.client_consumed) == (False, True, True)
    assert attempt.finish_reasons == ["stop"]
    assert row.response_bytes == len(heard.body)
    assert (row.usage.input, row.usage.output) == (5, 5)


async def test_a_missing_usage_is_not_taken_for_zero(gateway):
    heard = await gateway.chat("usage-missing", stream=True)
    row = await gateway.record(heard.request_id)
    assert row.usage.source != "reported"
    [attempt] = row.attempts.all()
    assert not attempt.usage_complete


async def test_model_mapping_changes_the_model_and_nothing_else(gateway):
    mapping = {"public-name": "echo-0"}
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, model_mapping=mapping)
    heard = await gateway.chat("public-name", stream=True, seed=7)
    assert heard.text == QUESTION
    [received] = gateway.simulator.requests
    assert (received.json["model"], received.json["seed"]) == ("echo-0", 7)
    row = await gateway.record(heard.request_id)
    [attempt] = row.attempts.all()
    assert (row.model_asked, attempt.model_sent) == ("public-name", "echo-0")


async def test_ones_own_request_is_running_and_then_final(gateway):
    call = await gateway.begin_chat("echo-100", stream=True)
    async with call:
        await call.read_until(b"one")
        request_id = call.heard().request_id
        running = await gateway.ask("GET", f"/v1/requests/{request_id}")
        assert (running.status, running.json()["state"]) == (200, "running")
        await call.rest()
    await gateway.recorded()
    final = (await gateway.ask("GET", f"/v1/requests/{request_id}")).json()
    assert (final["id"], final["state"], final["status"]) == (request_id, "final", 200)
    assert (final["end_reason"], final["model"]) == ("completed", "echo-100")
    assert final["usage"]["output"] == 5
    assert len(final["attempts"]) == 1
    assert "simulator" not in orjson.dumps(final).decode(), "a tenant never sees a channel"


@pytest.mark.parametrize("held_back", ["billing.courier.Courier._deliver", "billing.tasks._record_batch"])
async def test_ones_own_request_is_settled_before_its_row_is_there(gateway, monkeypatch, held_back):
    """An outcome waits in the courier while the store is away, and in the store while the workers are."""
    whole = {"billing.courier.Courier._deliver": _delivers_nothing, "billing.tasks._record_batch": _no_more}
    monkeypatch.setattr(held_back, whole[held_back])
    heard = await gateway.chat("echo-0", stream=True)
    if held_back.startswith("billing.tasks"):
        await gateway.idle()
    _, stranger = await gateway.configure(lambda: an_api_key(a_tenant()))
    own = await gateway.ask("GET", f"/v1/requests/{heard.request_id}")
    others = await gateway.ask("GET", f"/v1/requests/{heard.request_id}", key=stranger)
    monkeypatch.undo()
    assert (own.status, own.json().get("state"), others.status) == (200, "settled", 404)
    assert own.json()["usage"]["output"] == 5
    await gateway.idle()
    await gateway.run(record_settled)


async def _delivers_nothing(courier) -> None:
    """The store is away."""


def _no_more(store) -> bool:
    """The worker is away."""
    return False


async def test_another_tenants_request_is_unknown(gateway):
    _, stranger = await gateway.configure(lambda: an_api_key(a_tenant()))
    call = await gateway.begin_chat("echo-100", stream=True)
    async with call:
        await call.read_until(b"one")
        request_id = call.heard().request_id
        while_running = await gateway.ask("GET", f"/v1/requests/{request_id}", key=stranger)
        await call.rest()
    await gateway.recorded()
    afterwards = await gateway.ask("GET", f"/v1/requests/{request_id}", key=stranger)
    never_was = await gateway.ask("GET", f"/v1/requests/{uuid.uuid4()}", key=stranger)
    for refused in (while_running, afterwards, never_was):
        assert (refused.status, refused.error["code"]) == (404, "request_not_found")
    assert while_running.error["message"] == never_was.error["message"]


async def test_an_id_that_is_none_is_unknown(gateway):
    heard = await gateway.ask("GET", "/v1/requests/not-an-id")
    assert heard.status == 404
