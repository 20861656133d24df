"""Repeated `Idempotency-Key`s when another process has the key, dies with it, or the store is away."""

import asyncio

import pytest
import redis
from django.conf import settings

from billing import admission
from billing.admission import StoreUnavailable
from billing.admission.idempotency import MarkState
from channels_admin.services import model_route_set
from gateway import wiring
from gateway.admission import idempotency
from gateway.admission.stored_answers import StoredAnswer, seal
from tests.flows.leftovers import eventually
from tests.flows.repeats import KEY, SLOW, is_replay_of, kept, waiting

pytestmark = pytest.mark.usefixtures("idempotent_answers")


@pytest.fixture
def keys(gateway):
    return admission.admission_port().idempotency


@pytest.fixture
def past_grace(gateway):
    """As if the store had been up for long."""
    port = admission.admission_port()
    if gateway_has_redis():
        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.set(f"{settings.ADMISSION_KEY_PREFIX}grace_until", 0)
    else:
        port._core.book.epochs._grace_until = 0.0


def gateway_has_redis() -> bool:
    return not hasattr(admission.admission_port(), "workers")


# Another process has the key.


async def marker_of(gateway, keys, monkeypatch, model="echo-0"):
    """As another process would have it for the same question."""
    begin, seen = keys.begin, []

    async def spy(epoch, marker):
        seen.append(marker)
        return await begin(epoch, marker)

    with monkeypatch.context() as patch:
        patch.setattr(keys, "begin", spy)
        patch.setattr("gateway.relay_flow._candidates", lambda *a, **k: 1 / 0)
        assert (await gateway.chat(model, KEY)).status == 500
    [marker] = seen
    return type(marker)(marker.key, marker.fingerprint, "the-other-one")


async def test_a_runner_that_was_killed_frees_whoever_waits(gateway, keys, monkeypatch, past_grace):
    other = await marker_of(gateway, keys, monkeypatch)
    assert (await keys.begin("killed", other)).state is MarkState.MINE
    twin = asyncio.ensure_future(gateway.chat("echo-0", KEY))
    await waiting(gateway)
    await asyncio.sleep(idempotency.ASK_AGAIN_S * 1.5)
    assert not gateway.simulator.requests, "it did not wait"
    await admission.admission_port().leave("killed")  # no heartbeat came for so long
    heard = await twin
    assert (heard.status, heard.header("idempotent-replayed")) == (200, None)
    assert is_replay_of(await gateway.chat("echo-0", KEY), heard)


async def test_an_answer_of_another_process_is_waited_for_and_given_out(gateway, keys, monkeypatch):
    other = await marker_of(gateway, keys, monkeypatch)
    await keys.begin("other-process", other)
    twin = asyncio.ensure_future(gateway.chat("echo-0", KEY))
    await waiting(gateway)
    keys.ended("other-process", other)
    headers = ((b"content-type", b"application/json"), (b"x-relay-attempts", b"1"))
    await keys.keep(other, await seal(StoredAnswer(other.request_id, other.key, 200, headers, b'{"a":1}')))
    heard = await twin
    assert (heard.status, heard.body) == (200, b'{"a":1}')
    assert heard.header("x-relay-original-request-id") == "the-other-one"
    assert heard.header("x-relay-attempts") == "1"
    assert not gateway.simulator.requests


async def test_an_answer_put_under_another_key_is_not_given_out(gateway, keys, monkeypatch):
    other = await marker_of(gateway, keys, monkeypatch)
    await keys.begin("other-process", other)
    keys.ended("other-process", other)
    await keys.keep(other, await seal(StoredAnswer(other.request_id, "somebody else's", 200, (), b"secret")))
    heard = await gateway.chat("echo-0", KEY)
    assert heard.error["code"] == "idempotency_not_replayable"


async def test_a_sealing_key_that_was_dropped_is_409(gateway, settings):
    await gateway.chat("echo-0", KEY)
    await kept(gateway)
    settings.SEALING_KEYS = ("another:0123456789abcdef0123456789",)
    assert (await gateway.chat("echo-0", KEY)).error["code"] == "idempotency_not_replayable"


# The store is away.


@pytest.fixture
def away(keys, monkeypatch):
    async def refuses(*_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(keys, "begin", refuses)


async def test_without_the_store_a_chat_runs(gateway, away):
    for _ in range(2):
        assert (await gateway.chat("echo-0", KEY)).status == 200
    assert len(gateway.simulator.requests) == 2


async def test_without_the_store_what_makes_something_is_503(gateway, away):
    picture = ("POST", "/v1/images/generations", ("Content-Type", "application/json"))
    body = b'{"model":"image-ok","prompt":"x"}'
    heard = await gateway.ask(*picture, KEY, body=body)
    assert (heard.status, heard.error["code"]) == (503, "admission_unavailable")
    assert (await gateway.ask(*picture, body=body)).status == 200
    await gateway.configure(model_route_set, model="drawing", is_artefact=True)
    assert (await gateway.chat("drawing", KEY)).status == 503
    assert len(gateway.simulator.requests) == 1


async def test_an_answer_that_cannot_be_fetched_is_503_and_not_a_second_run(gateway, keys, monkeypatch):
    async def refuses(*_):
        raise StoreUnavailable("away")

    await gateway.chat("echo-0", KEY)
    await kept(gateway)
    monkeypatch.setattr(keys, "answer", refuses)
    assert (await gateway.chat("echo-0", KEY)).status == 503
    assert len(gateway.simulator.requests) == 1


async def test_an_answer_the_store_did_not_take_is_409_at_once(gateway, keys, monkeypatch):
    async def refuses(*_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(keys, "keep", refuses)
    first, second = await asyncio.gather(*(gateway.chat(SLOW, KEY) for _ in range(2)))
    assert first.body == second.body, "whoever waited here gets it"
    assert (await gateway.chat(SLOW, KEY)).error["code"] == "idempotency_not_replayable"
    assert len(gateway.simulator.requests) == 1


async def test_answers_the_store_does_not_settle_fill_no_memory(gateway, monkeypatch):
    monkeypatch.setattr(idempotency, "UNKEPT_BYTES_MAX", 1000)
    first = await gateway.chat("echo-0", KEY, text="x" * 2000)
    assert first.status == 200
    assert (await gateway.chat("echo-0", KEY, text="x" * 2000)).error["code"] == "idempotency_not_replayable"
    assert wiring.current().idempotency._unkept_bytes == 0


async def mark_of_another(keys, marker):
    """What another process is told after this one died."""
    await admission.admission_port().leave(wiring.current().open_requests.epoch)
    return await keys.begin("another", type(marker)(marker.key, marker.fingerprint, "a-twin"))


def forget(keys, marker) -> None:
    if gateway_has_redis():
        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.delete(f"{settings.ADMISSION_KEY_PREFIX}idem:{marker.key}")
    else:
        keys._entries.clear()


@pytest.mark.usefixtures("past_grace")
async def test_a_store_that_forgot_is_told_who_has_succeeded(gateway, keys, monkeypatch):
    watched = wiring.current().idempotency
    with monkeypatch.context() as patch:
        patch.setattr(watched, "settled", lambda _: None)  # as while the store takes no outcome
        assert (await gateway.chat("echo-0", KEY)).status == 200
        await gateway.idle()
    [turn] = watched._unkept.values()
    forget(keys, turn.marker)
    await watched.write_again(wiring.current().open_requests.epoch)
    assert (await mark_of_another(keys, turn.marker)).state is MarkState.UNANSWERED


@pytest.mark.usefixtures("past_grace")
async def test_one_that_ends_while_it_is_written_again_is_not_left_running(gateway, keys, monkeypatch):
    watched, restore = wiring.current().idempotency, keys.restore
    async with await gateway.begin_chat(SLOW, KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        [turn] = watched._turns.values()

        async def late(epoch, markers):
            await call.rest()
            await kept(gateway)
            forget(keys, turn.marker)
            await restore(epoch, markers)

        monkeypatch.setattr(keys, "restore", late)
        await watched.write_again(wiring.current().open_requests.epoch)
    twin = type(turn.marker)(turn.marker.key, turn.marker.fingerprint, "a-twin")
    assert (await keys.begin("another", twin)).state is not MarkState.RUNNING
    assert (await mark_of_another(keys, turn.marker)).state is not MarkState.MINE


async def test_a_store_that_forgot_is_told_who_runs(gateway, keys):
    async with await gateway.begin_chat(SLOW, KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        await wiring.current().open_requests._write_again()
        twin = await gateway.chat(SLOW, KEY)
        assert is_replay_of(twin, await call.rest())
    assert len(gateway.simulator.requests) == 1
