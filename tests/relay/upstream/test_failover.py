"""Which failures start another attempt, in which order, and what the client is told when all have failed."""

from dataclasses import replace

import httpx
import orjson
import pytest

from relay.core.end_reasons import EndReason
from relay.core.errors import SecretUnavailable
from relay.core.types import RelayFlags, UpstreamKey
from tests.fakes.runtime import DONE, ERROR, HELLO, NO_REPEATS, ROLE, STOP, WHOLE, a_channel

JSON = {"content-type": "application/json"}
TWO = (a_channel(number=1), a_channel(number=2))


async def answer_well(runtime, number: int) -> None:
    body = await runtime.streaming(HELLO, STOP, DONE, number=number)
    body.end()


async def test_the_next_channel_answers_after_a_refused_connection(runtime):
    client = runtime.ask(*TWO)
    (await runtime.exchange()).refuse(httpx.ConnectError("refused"))
    await answer_well(runtime, 1)
    await client.end()
    outcome = runtime.recorder.one
    assert [a.end_reason for a in outcome.attempts] == [EndReason.CONNECT_FAILED, EndReason.COMPLETED]
    assert [a.channel_id for a in outcome.attempts] == [1, 2]
    assert outcome.end_reason is EndReason.COMPLETED
    assert bytes(client.received) == HELLO + STOP + DONE
    assert client.running.attempts == 2


@pytest.mark.parametrize("status", [401, 402, 403, 408, 409, 425, 429, 500, 502, 503, 504, 524, 529])
async def test_status_that_starts_another_attempt(runtime, status):
    client = runtime.ask(*TWO)
    (await runtime.sent()).headers(status, JSON).end()
    await answer_well(runtime, 1)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


@pytest.mark.parametrize("status", [400, 413, 415, 422, 404, 410])
async def test_status_that_is_the_requests_own(runtime, status):
    """404 too: the channels serve `*`, which claims no model."""
    client = runtime.ask(*TWO)
    (await runtime.sent()).headers(status, JSON).end()
    await client.end()
    assert client.refusal.status == status
    assert len(runtime.transport.exchanges) == 1


async def test_404_of_a_claimed_model_starts_another_attempt(runtime):
    client = runtime.ask(replace(TWO[0], models=("m",)), TWO[1])
    (await runtime.sent()).headers(404, JSON).end()
    await answer_well(runtime, 1)
    await client.end()
    assert runtime.recorder.one.end_reason is EndReason.COMPLETED


@pytest.mark.parametrize("frames", [[ERROR], [DONE], [b"data: nonsense\n\n"], [ROLE, ERROR], []])
async def test_a_failed_200_starts_another_attempt_and_nothing_of_it_is_seen(runtime, frames):
    client = runtime.ask(*TWO)
    (await runtime.streaming(*frames)).end()
    await answer_well(runtime, 1)
    await client.end()
    assert bytes(client.received) == HELLO + STOP + DONE


async def test_a_whole_answer_cut_short_is_safe_to_ask_for_again(runtime):
    client = runtime.ask(*TWO, stream=False)
    first = (await runtime.sent()).headers(headers=JSON)
    first.send(WHOLE[:50])
    first.fail(httpx.ReadError("cut"))
    second = (await runtime.sent(1)).headers(headers=JSON)
    second.send(WHOLE)
    second.end()
    await client.end()
    assert bytes(client.received) == WHOLE


async def test_never_after_the_commit_point(runtime):
    client = runtime.ask(*TWO)
    body = await runtime.streaming(HELLO)
    body.fail(httpx.ReadError("cut"))
    await client.end()
    assert len(runtime.transport.exchanges) == 1
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET


@pytest.mark.parametrize(
    ("path", "key", "requests"),
    [
        ("/v1/images/generations", None, 1),
        ("/v1/images/generations", "k", 1),
        ("/v1/audio/speech", None, 1),
        ("/v1/audio/speech", "k", 2),
        ("/v1/responses", None, 1),
        ("/v1/responses", "k", 2),
        ("/v1/embeddings", None, 2),
        ("/v1/systemone", None, 2),
    ],
)
async def test_families_that_are_not_replayed(runtime, path, key, requests):
    client = runtime.ask(*TWO, path=path, dialect="opaque", stream=False, idempotency_key=key)
    (await runtime.sent()).headers(503, JSON).end()
    if requests == 2:
        (await runtime.sent(1)).headers(503, JSON).end()
    await client.end()
    assert len(runtime.transport.exchanges) == requests
    assert client.refusal.status == 503


async def test_retry_times_bounds_further_channels(runtime):
    channels = [a_channel(number=number) for number in range(1, 6)]
    client = runtime.ask(*channels)
    for number in range(3):
        (await runtime.sent(number)).headers(503, JSON).end()
    await client.end()
    assert len(runtime.transport.exchanges) == 3


async def test_flags_are_read_again_before_each_further_attempt(runtime):
    client = runtime.ask(*TWO)
    exchange = await runtime.sent()
    runtime.control.current = replace(NO_REPEATS, retry_times=0)
    exchange.headers(503, JSON).end()
    await client.end()
    assert len(runtime.transport.exchanges) == 1


async def test_retry_budget_is_looked_at_before_a_new_attempt_only(runtime):
    runtime.control.current = RelayFlags(retry_budget_s=50, header_timeout_s=40)
    client = runtime.ask(a_channel(number=1), a_channel(number=2), a_channel(number=3))
    await runtime.sent()
    await runtime.clock.advance(40.1)  # first attempt: header timeout, 10 s of budget left
    await runtime.sent(1)
    await runtime.clock.advance(40.1)  # runs past the budget, and is not cut by it
    await client.end()
    assert len(runtime.transport.exchanges) == 2
    assert client.refusal.status == 504


async def test_a_key_revoked_meanwhile_is_not_used(runtime):
    client = runtime.ask(a_channel(number=1), a_channel(number=2), a_channel(number=3))
    exchange = await runtime.sent()
    runtime.control.refused_keys.add(2)
    exchange.headers(503, JSON).end()
    await answer_well(runtime, 1)
    await client.end()
    assert [a.channel_id for a in runtime.recorder.one.attempts] == [1, 3]


async def test_all_failed_tells_the_last_meaningful_status_scrubbed(runtime):
    client = runtime.ask(*TWO)
    for number in range(2):
        body = (await runtime.sent(number)).headers(503, JSON)
        message = "busy at https://api.internal.example/v1 with sk-proj-abcdefghijklmnop1234567890"
        body.send(orjson.dumps({"error": {"message": message, "type": "server_error"}}))
        body.end()
    await client.end()
    assert client.refusal.status == 503
    assert "sk-proj" not in client.refusal.message
    assert "internal.example" not in client.refusal.message


class LostSecret:
    def reveal(self) -> str:
        raise SecretUnavailable("UnknownSealingKey")


async def test_a_credential_that_cannot_be_unsealed_is_a_reason_for_the_next_channel(runtime):
    lost = replace(TWO[0], keys=(UpstreamKey(7, "sk-…7", LostSecret()),))
    client = runtime.ask(lost, TWO[1])
    await answer_well(runtime, 0)
    await client.end()
    first, second = runtime.recorder.one.attempts
    assert (first.end_reason, first.error_class) == (EndReason.CONNECT_FAILED, "secret_UnknownSealingKey")
    assert second.end_reason is EndReason.COMPLETED


async def test_what_the_headers_said_survives_a_body_that_never_comes(runtime):
    client = runtime.ask()
    (await runtime.sent()).headers(429, {**JSON, "retry-after": "7"})
    await runtime.clock.advance(5.1)
    await client.end()
    assert (client.refusal.status, client.refusal.retry_after_s) == (429, 7)
    assert runtime.recorder.one.attempts[0].status == 429


async def test_no_usable_candidate_is_told_as_such(runtime):
    runtime.control.refused_keys.update({1, 2})
    client = runtime.ask(*TWO)
    await client.end()
    assert (client.refusal.status, client.refusal.code) == (503, "no_channel_available")
    assert not runtime.transport.exchanges


async def test_bad_upstream_credentials_never_reach_the_tenant(runtime):
    client = runtime.ask(*TWO)
    (await runtime.sent()).headers(401, JSON).end()
    (await runtime.sent(1)).headers(403, JSON).end()
    await client.end()
    assert client.refusal.status == 502
    assert client.refusal.code == "upstream_credentials_exhausted"


async def test_each_attempt_carries_its_decision(runtime):
    client = runtime.ask(*TWO)
    (await runtime.sent()).headers(503, JSON).end()
    (await runtime.sent(1)).headers(400, JSON).end()
    await client.end()
    first, second = runtime.recorder.one.attempts
    assert first.decision.startswith("first choice")
    assert "next channel" in first.decision
    assert "not retried" in second.decision


async def test_a_passed_through_stream_keeps_its_status(runtime):
    client = runtime.ask(path="/v1/systemone", dialect="opaque")
    body = (await runtime.sent()).headers(202)
    body.send(b"data: x\n\n")
    body.end()
    await client.end()
    assert client.head.status == 202


async def test_an_answer_that_broke_off_is_told_as_such_and_not_by_an_earlier_failure(runtime):
    client = runtime.ask(*TWO)
    limited = (await runtime.sent()).headers(429, JSON)
    limited.send(orjson.dumps({"error": {"message": "Slow down.", "type": "rate_limit_error"}}))
    limited.end()
    body = await runtime.streaming(HELLO, number=1)
    body.fail(httpx.ReadError("cut"))
    await client.end()
    assert b"broke off" in client.received
    assert b"Slow down" not in client.received
    assert runtime.recorder.one.end_reason is EndReason.UPSTREAM_RESET
