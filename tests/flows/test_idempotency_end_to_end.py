"""A repeated `Idempotency-Key` through real sockets, both lanes: one upstream request, one charge, one answer."""

import asyncio
import random
from collections import Counter

import pytest

from billing import admission
from billing.models import RelayRequest
from channels_admin.services import runtime_flag_set
from gateway import wiring
from gateway.admission import idempotency
from gateway.front.drain import drain
from relay.upstream.running import RunningRequest
from tests.factories.channels import an_api_key
from tests.factories.money import a_price
from tests.flows.gateway import chat_body
from tests.flows.leftovers import eventually
from tests.flows.repeats import KEY, SLOW, is_replay_of, kept, waiting

pytestmark = pytest.mark.usefixtures("idempotent_answers")


@pytest.fixture
def keys(gateway):
    return admission.admission_port().idempotency


async def test_twins_at_once_are_one_upstream_request_one_answer_and_one_charge(gateway):
    first, second = await asyncio.gather(*(gateway.chat(SLOW, KEY) for _ in range(2)))
    if first.header("idempotent-replayed"):
        first, second = second, first
    assert first.status == 200
    assert first.header("idempotent-replayed") is None
    assert is_replay_of(second, first)
    assert len(gateway.simulator.requests) == 1
    [charge] = await gateway.charges()
    assert charge < 0
    assert await gateway.count() == 1


async def test_a_later_twin_gets_the_same_and_pays_nothing(gateway):
    first = await gateway.chat("echo-0", KEY)
    await kept(gateway)
    for _ in range(3):
        assert is_replay_of(await gateway.chat("echo-0", KEY), first)
    assert len(gateway.simulator.requests) == 1
    assert len(await gateway.charges()) == 1


async def test_who_leaves_as_his_whole_answer_comes_pays_and_finds_it_when_he_asks_again(
    gateway, monkeypatch
):
    """It has ended well then, though nobody was given it: it must neither run again nor be refused for ever."""
    head, has_come = RunningRequest.head, asyncio.Event()

    async def comes_as_the_client_leaves(running):
        found = await head(running)
        call.leave()
        has_come.set()
        await asyncio.sleep(10)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(RunningRequest, "head", comes_as_the_client_leaves)
        async with await gateway.begin_chat("echo-0", KEY) as call:
            await has_come.wait()
            await gateway.recorded()
    again = await gateway.chat("echo-0", KEY)
    assert again.status == 200
    assert again.header("idempotent-replayed") == "true"
    assert len(gateway.simulator.requests) == 1
    assert len(await gateway.charges()) == 1


async def test_it_is_booked_before_it_is_given_out_again(gateway, keys, monkeypatch):
    """And the store knows before that it must not run again: this process may die in between."""
    port = admission.admission_port()
    settle, ended, order = port.settle, keys.ended, []

    def told(epoch, marker):
        ended(epoch, marker)
        order.append("ended")

    async def slowly(records):
        await asyncio.sleep(0.3)
        await settle(records)
        order.append("settled")

    monkeypatch.setattr(port, "settle", slowly)
    monkeypatch.setattr(keys, "ended", told)
    first = await gateway.chat("echo-0", KEY)
    second = await gateway.chat("echo-0", KEY)
    order.append("replayed")
    assert is_replay_of(second, first)
    assert order == ["ended", "settled", "replayed"]


async def test_without_the_flag_every_request_runs(gateway):
    await gateway.configure(runtime_flag_set, name="IDEMPOTENT_ANSWERS", value=False)
    for _ in range(2):
        heard = await gateway.chat("echo-0", KEY)
        assert (heard.status, heard.header("idempotent-replayed")) == (200, None)
    assert len(gateway.simulator.requests) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"body": chat_body("echo-0", text="something else")},
        {"target": "/v1/custom"},
        {"target": "/v1/chat/completions?x=1"},
        {"method": "PUT", "target": "/v1/custom"},
    ],
)
async def test_another_question_under_the_key_is_409(gateway, change):
    asked = {"method": "POST", "target": "/v1/chat/completions", "body": chat_body("echo-0")}
    kind = ("Content-Type", "application/json")

    def ask(options):
        return gateway.ask(options["method"], options["target"], kind, KEY, body=options["body"])

    first = await ask(asked)
    heard = await ask(asked | change)
    assert (heard.status, heard.error["code"]) == (409, "idempotency_key_reused")
    assert heard.header("x-relay-original-request-id") == first.request_id
    assert heard.header("x-should-retry") == "false"
    assert len(gateway.simulator.requests) == 1


async def test_and_at_once_while_the_first_runs(gateway):
    async with await gateway.begin_chat(SLOW, KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "the first never ran")
        heard = await gateway.chat(SLOW, KEY, text="something else")
        assert heard.error["code"] == "idempotency_key_reused"
        assert (await call.rest()).status == 200


async def test_keys_of_others_do_not_meet(gateway):
    """Another API key of the same tenant is another scope."""
    _, other = await gateway.configure(an_api_key, gateway.tenant, name="other")
    await gateway.chat("echo-0", KEY)
    heard = await gateway.chat("echo-0", KEY, key=other)
    assert (heard.status, heard.header("idempotent-replayed")) == (200, None)
    assert len(gateway.simulator.requests) == 2


async def test_a_streamed_answer_is_409_with_its_request(gateway):
    first = await gateway.chat("echo-0", KEY, stream=True)
    assert first.is_done
    heard = await gateway.chat("echo-0", KEY, stream=True)
    assert (heard.status, heard.error["code"]) == (409, "idempotency_not_replayable")
    assert heard.header("x-relay-original-request-id") == first.request_id
    assert first.request_id in heard.error["message"]
    assert len(gateway.simulator.requests) == 1


@pytest.mark.parametrize(("size", "status"), [(1024 * 1024 - 4000, 200), (1024 * 1024 + 1, 409)])
async def test_large_answers_are_kept_up_to_a_limit(gateway, size, status):
    first = await gateway.chat("echo-0", KEY, text="x" * size)
    assert first.status == 200
    heard = await gateway.chat("echo-0", KEY, text="x" * size)
    assert heard.status == status
    assert status == 409 or is_replay_of(heard, first)
    assert len(gateway.simulator.requests) == 1


async def test_an_answer_that_is_gone_is_409(gateway, keys, monkeypatch):
    async def nothing(request_id):
        return None

    await gateway.chat("echo-0", KEY)
    await kept(gateway)
    monkeypatch.setattr(keys, "answer", nothing)
    heard = await gateway.chat("echo-0", KEY)
    assert heard.error["code"] == "idempotency_not_replayable"


async def test_sound_passes_through_and_is_kept_all_the_same(gateway):
    body = b'{"model":"tts","input":"hello","voice":"alloy"}'
    ask = ("POST", "/v1/audio/speech", ("Content-Type", "application/json"), KEY)
    first = await gateway.ask(*ask, body=body)
    assert (first.status, first.header("content-type")) == (200, "audio/mpeg")
    assert is_replay_of(await gateway.ask(*ask, body=body), first)
    assert len(gateway.simulator.requests) == 1


async def test_a_form_with_a_new_boundary_is_the_same_question(gateway):
    def form(boundary: str, model: bytes = b"image-ok"):
        lines = [b'Content-Disposition: form-data; name="model"', b"", model]
        image = [b'Content-Disposition: form-data; name="image"; filename="a.png"', b"", b"\x89PNG\r\n\0"]
        mark = f"--{boundary}".encode()
        body = b"\r\n".join([mark, *lines, mark, *image, mark + b"--", b""])
        kind = ("Content-Type", f"multipart/form-data; boundary={boundary}")
        return gateway.ask("POST", "/v1/images/edits", kind, KEY, body=body)

    first = await form("b1")
    assert first.status == 200
    assert is_replay_of(await form("another-boundary"), first)
    assert (await form("b1", b"image-slow-0")).error["code"] == "idempotency_key_reused"
    assert len(gateway.simulator.requests) == 1


@pytest.mark.parametrize(
    ("model", "stream"), [("status-400", False), ("cut-after-2", True), ("empty-200", False)]
)
async def test_a_failed_answer_is_asked_anew(gateway, model, stream):
    for _ in range(2):
        before = len(gateway.simulator.requests)
        heard = await gateway.chat(model, KEY, stream=stream)
        assert heard.header("idempotent-replayed") is None
        assert len(gateway.simulator.requests) > before


async def test_those_who_wait_for_one_that_fails_run_one_after_the_other(gateway):
    for flag in ("RETRY_TIMES", "CHANNEL_RETRY_TIMES"):
        await gateway.configure(runtime_flag_set, name=flag, value=0)
    heard = await asyncio.gather(*(gateway.chat("flaky-2", KEY) for _ in range(10)))
    assert Counter(one.status for one in heard) == {200: 8, 503: 2}
    assert len(gateway.simulator.requests) == 3
    assert sum(one.header("idempotent-replayed") == "true" for one in heard) == 7
    assert [charge < 0 for charge in sorted(await gateway.charges())] == [True, False, False]


async def test_refused_before_it_ran_is_asked_anew(gateway):
    await gateway.configure(a_price, "dear", per_call="1000")
    assert (await gateway.chat("dear", KEY)).status == 402
    await gateway.configure(a_price, "dear", group="default", per_call="0.1")
    heard = await gateway.chat("dear", KEY)
    assert heard.status == 200, heard.body
    assert is_replay_of(await gateway.chat("dear", KEY), heard)


async def test_one_whose_client_left_is_asked_anew(gateway):
    async with await gateway.begin_chat("slow-headers-9", KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        twin = asyncio.ensure_future(gateway.chat("slow-headers-9", KEY))
        await waiting(gateway)
        call.leave()
        await eventually(lambda: len(gateway.simulator.requests) < 2, "the one who waited never ran")
        twin.cancel()


async def test_one_who_waits_and_leaves_is_forgotten(gateway):
    async with await gateway.begin_chat(SLOW, KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        async with await gateway.begin_chat(SLOW, KEY) as other:
            await waiting(gateway)
            parts = wiring.current()
            assert (len(parts.open_requests), len(parts.engine.running)) == (1, 1), (
                "whoever waits holds nothing"
            )
            other.leave()
            await waiting(gateway, 0)
        assert (await call.rest()).status == 200
    assert await gateway.count() == 1


async def test_whoever_has_waited_too_long_is_told_when_to_ask_again(gateway, monkeypatch):
    monkeypatch.setattr(idempotency, "WAIT_MAX_S", 0.1)
    async with await gateway.begin_chat(SLOW, KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        heard = await gateway.chat(SLOW, KEY)
        assert (heard.status, heard.error["code"]) == (409, "idempotency_key_in_use")
        assert int(heard.header("retry-after")) > 0
        first = await call.rest()
    assert heard.header("x-relay-original-request-id") == first.request_id


async def test_no_more_wait_than_the_process_can_keep(gateway, monkeypatch):
    monkeypatch.setattr(idempotency, "WAITING_MAX", 1)
    heard = await asyncio.gather(*(gateway.chat(SLOW, KEY) for _ in range(4)))
    assert Counter(one.status for one in heard) == {200: 2, 409: 2}


async def test_a_read_has_no_use_for_the_key(gateway):
    for _ in range(2):
        heard = await gateway.ask("GET", "/v1/custom", KEY)
        assert (heard.status, heard.header("idempotent-replayed")) == (200, None)
    assert len(gateway.simulator.requests) == 2


# All together, and the end.


async def test_at_the_end_nobody_begins_any_more(gateway):
    async with await gateway.begin_chat("slow-headers-9", KEY) as call:
        await eventually(lambda: not gateway.simulator.requests, "it never ran")
        async with await gateway.begin_chat("slow-headers-9", KEY) as other:
            await waiting(gateway)
            drain.stop_all()
            assert (await other.rest()).error["code"] == "gateway_shutdown"
        assert (await call.rest()).error["code"] == "gateway_shutdown"
    assert len(gateway.simulator.requests) == 1


@pytest.mark.slow
async def test_a_thousand_requests_under_fifty_keys_succeed_once_a_key(gateway):
    for flag in ("RETRY_TIMES", "CHANNEL_RETRY_TIMES"):
        await gateway.configure(runtime_flag_set, name=flag, value=0)
    chance = random.Random(20)
    asked = [chance.randrange(50) for _ in range(1000)]

    async def one(number: int, leaves_after_s: float | None):
        model = "flaky-1" if number % 5 == 0 else "slow-headers-0.2" if number % 5 == 1 else "echo-0"
        named = (("Idempotency-Key", f"key-{number}"), ("X-Client-Request-Id", f"key-{number}"))
        async with await gateway.begin_chat(model, *named, text=f"question {number}") as call:
            if leaves_after_s is not None:
                await asyncio.sleep(leaves_after_s)
                call.leave()
                return number, None
            return number, await call.rest(60)

    leaving = [chance.random() * 0.3 if chance.random() < 0.1 else None for _ in asked]
    heard = await asyncio.gather(*map(one, asked, leaving))
    bodies: dict[int, set[bytes]] = {}
    for number, answer in heard:
        if answer is not None and answer.status == 200:
            bodies.setdefault(number, set()).add(answer.body)
    refused = Counter(
        (answer.status, answer.error["code"])
        for _, answer in heard
        if answer is not None and answer.status != 200
    )
    assert {status for status, _ in refused} <= {503}, refused
    assert set(bodies) == set(asked)
    assert {len(one) for one in bodies.values()} == {1}, "a key got two answers"
    await gateway.recorded()

    def succeeded() -> Counter:
        rows = RelayRequest.objects.filter(end_reason="completed", status=200)
        return Counter(rows.values_list("client_request_id", flat=True))

    assert await gateway.run(succeeded) == {f"key-{number}": 1 for number in set(asked)}
