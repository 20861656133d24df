"""What a request costs, who may run one, and that nothing stays held: through real sockets, both lanes."""

import asyncio

import orjson
import pytest

from billing import admission
from billing.models import Account, Price
from billing.services.prices import price_close
from channels_admin.health import health_store
from channels_admin.services import (
    api_key_close,
    api_key_update,
    channel_update,
    image_failover_set,
    runtime_flag_set,
    tenant_set_status,
    tenant_update,
)
from channels_admin.statuses import AccessStatus
from gateway import wiring
from gateway.admission.outage import OutageAllowance
from tests.factories.channels import an_api_key
from tests.factories.money import IN_NANO, OUT_NANO, a_funded_tenant, a_price
from tests.flows.gateway import chat_body
from tests.flows.leftovers import eventually

USD = 10**9
START_NANO = 100 * USD


async def balance_of(gateway, tenant=None) -> int:
    def read() -> int:
        return Account.objects.get(tenant=tenant or gateway.tenant).balance_nano

    await gateway.recorded()
    return await gateway.run(read)


async def told(gateway, request_id: str) -> dict:
    await gateway.recorded()
    return orjson.loads((await gateway.ask("GET", f"/v1/requests/{request_id}")).body)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_costs_what_its_usage_says_to_the_nano(gateway, stream):
    heard = await gateway.chat("echo-0", stream=stream)
    row = await gateway.record(heard.header("x-request-id"))
    usage = row.usage
    expected = usage.input * IN_NANO + usage.output * OUT_NANO
    assert expected > 0
    assert (row.cost_nano, row.estimated, usage.source) == (expected, False, "reported")
    assert await gateway.charges() == [-expected]
    assert await balance_of(gateway) == START_NANO - expected
    answer = await told(gateway, heard.header("x-request-id"))
    assert (answer["cost_nano"], answer["estimated"]) == (expected, False)


async def test_usage_the_upstream_never_sent_is_estimated_never_zero(gateway):
    heard = await gateway.chat("usage-missing", stream=True)
    row = await gateway.record(heard.header("x-request-id"))
    assert row.end_reason == "completed"
    assert (row.estimated, row.usage.source, row.usage.method) == (True, "estimated", "o200k")
    assert row.usage.input >= 5  # "one two three four five"
    assert row.usage.output >= 5
    assert row.cost_nano == row.usage.input * IN_NANO + row.usage.output * OUT_NANO


async def test_a_client_that_leaves_after_five_chunks_pays_for_the_prompt_and_what_arrived(gateway):
    words = " ".join(f"word{number}" for number in range(100))
    call = await gateway.begin_chat("interval-0.02", text=words, stream=True)
    async with call:
        await call.read_until(b"word4")
        call.leave()
    await gateway.idle()
    [charge] = await gateway.charges()
    row = await gateway.record(call.heard().request_id)
    assert row.end_reason == "client_disconnected"
    assert row.estimated
    assert row.usage.input >= 100
    assert 5 <= row.usage.output < 150
    assert -charge == row.cost_nano == row.usage.input * IN_NANO + row.usage.output * OUT_NANO > 0


@pytest.mark.parametrize("model", ["slow-headers-9", "slow-first-byte-9", "keepalive-only"])
async def test_a_client_that_leaves_before_the_first_event_pays_nothing(gateway, model):
    call = await gateway.begin_chat(model, stream=True)
    async with call:
        await eventually(lambda: not gateway.simulator.running_requests, "the upstream was never asked")
        call.leave()
    await gateway.idle()
    assert await gateway.charges() == [0]
    assert await balance_of(gateway) == START_NANO


async def test_a_client_that_leaves_right_after_the_end_mark_pays_exactly(gateway):
    call = await gateway.begin_chat("echo-0", stream=True)
    async with call:
        await call.read_until(b"[DONE]")
        call.leave()
    row = await gateway.record(call.heard().request_id)
    assert (row.end_reason, row.estimated) == ("completed", False)
    assert row.cost_nano == row.usage.input * IN_NANO + row.usage.output * OUT_NANO


@pytest.mark.parametrize(
    "model", ["refuse-keys", "429-retry-after-1", "html-200", "error-in-200", "cut-after-0", "empty-200"]
)
async def test_a_request_that_got_no_answer_costs_nothing(gateway, model):
    heard = await gateway.chat(model, stream=True)
    assert heard.status >= 400
    assert await gateway.charges() == [0]


async def test_a_balance_for_three_lets_three_of_fifty_reach_the_upstream(gateway):
    def poor() -> str:
        tenant = a_funded_tenant("3.5")
        a_price("dear*", per_call="1")
        return an_api_key(tenant)[1]

    key = await gateway.configure(poor)
    asked = [gateway.chat("dear", text="hi", key=key) for _ in range(50)]
    heard = await asyncio.gather(*asked)
    statuses = sorted(one.status for one in heard)
    assert statuses == [200] * 3 + [402] * 47
    assert len(gateway.simulator.requests) == 3
    refused = orjson.loads(next(one for one in heard if one.status == 402).body)["error"]
    assert refused["code"] == "insufficient_quota"
    assert "1.00 USD" in refused["message"]
    await gateway.recorded()


async def test_a_model_without_a_price_is_refused_unless_the_flag_allows_it(gateway):
    await gateway.configure(lambda: price_close(price=Price.objects.get(model="*")))
    heard = await gateway.chat("echo-0")
    assert (heard.status, orjson.loads(heard.body)["error"]["code"]) == (503, "model_not_priced")
    assert gateway.simulator.requests == []
    await gateway.configure(runtime_flag_set, name="ALLOW_UNPRICED_MODELS", value=True)
    heard = await gateway.chat("echo-0")
    row = await gateway.record(heard.header("x-request-id"))
    assert (heard.status, row.cost_nano, row.price_id) == (200, 0, None)


async def test_a_balance_that_runs_out_ends_the_stream_unfinished(gateway, monkeypatch):
    """The first checkpoint, after two seconds, asks for more than there is."""
    monkeypatch.setattr("billing.terms.DEFAULT_OUTPUT_TOKENS", 1)

    def poor() -> str:
        a_price("interval*", output="1000")
        return an_api_key(a_funded_tenant("0.01"))[1]

    key = await gateway.configure(poor)
    words = " ".join(f"word{number}" for number in range(2000))
    heard = await gateway.chat("interval-0.01", text=words, stream=True, key=key)
    assert heard.status == 200
    assert not heard.is_done
    assert "balance" in heard.stream_error["message"]
    row = await gateway.record(heard.request_id)
    assert row.end_reason == "balance_exhausted"
    assert row.cost_nano > 10**7


@pytest.mark.parametrize("what", ["key", "tenant"])
async def test_a_key_that_is_revoked_ends_its_running_stream_which_is_paid(gateway, what):
    call = await gateway.begin_chat("interval-0.05", text="one two three " * 200, stream=True)
    async with call:
        await call.read_until(b"three")
        if what == "key":
            await gateway.configure(api_key_close, api_key_id=gateway.api_key.pk)
        else:
            await gateway.configure(
                tenant_set_status, tenant_id=gateway.tenant.pk, status=AccessStatus.CLOSED
            )
        heard = await call.rest(within_s=2)
    assert not heard.is_done
    assert heard.stream_error is not None
    row = await gateway.record(heard.request_id)
    assert row.end_reason == "revoked"
    assert row.cost_nano > 0


async def test_a_key_that_is_revoked_while_its_request_waits_runs_no_further(gateway, monkeypatch):
    """It was authenticated before, and begins after."""
    port = wiring.current().admissions._port
    admit = port.admit
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def waiting(epoch, ask):
        waits.set()
        await goes_on.wait()
        return await admit(epoch, ask)

    monkeypatch.setattr(port, "admit", waiting)
    call = await gateway.begin_chat("interval-0.05", text="one two three " * 200, stream=True)
    async with call:
        await waits.wait()
        await gateway.configure(api_key_close, api_key_id=gateway.api_key.pk)
        goes_on.set()
        heard = await call.rest(within_s=3)
    assert not heard.is_done
    row = await gateway.record(heard.request_id)
    assert row.end_reason == "revoked"


@pytest.mark.parametrize(
    ("limit", "needle"),
    [
        ({"max_concurrent_requests": 1}, "1 concurrent requests for this"),
        ({"max_concurrent_streams": 1}, "1 concurrent streams for this"),
        ({"requests_per_minute": 1}, "1 requests per minute for this"),
    ],
)
@pytest.mark.parametrize("whose", ["tenant", "api key"])
async def test_a_ceiling_refuses_what_is_beyond_it_by_its_name(gateway, limit, needle, whose):
    if whose == "tenant":
        await gateway.configure(tenant_update, tenant_id=gateway.tenant.pk, **limit)
    else:
        await gateway.configure(api_key_update, api_key_id=gateway.api_key.pk, **limit)
    call = await gateway.begin_chat("interval-0.05", text="one two three four", stream=True)
    async with call:
        await call.read_until(b"one")
        second = await gateway.chat("echo-0", stream=True)
        assert second.status == 429
        error = orjson.loads(second.body)["error"]
        assert needle in error["message"]
        wait_s = int(second.header("retry-after"))
        assert wait_s >= 1
        is_rate = "requests_per_minute" in limit
        assert second.header("x-ratelimit-limit-requests") == ("1" if is_rate else None)
        assert second.header("x-ratelimit-remaining-requests") == ("0" if is_rate else None)
        assert second.header("x-ratelimit-reset-requests") == (f"{wait_s}s" if is_rate else None)
        await call.rest()
    await gateway.recorded()
    if "requests_per_minute" not in limit:
        assert (await gateway.chat("echo-0", stream=True)).status == 200


async def test_channels_at_their_ceiling_are_passed_over_and_then_refused(gateway):
    await gateway.configure(
        channel_update, channel_id=gateway.channel.pk, max_concurrent_requests=1, priority=5
    )
    second = await gateway.add_channel(gateway.simulator.base_url, name="second", max_concurrent_requests=1)
    calls = [await gateway.begin_chat("interval-0.05", stream=True) for _ in range(2)]
    for call in calls:
        await call.read_until(b"one")
    third = await gateway.chat("echo-0")
    assert (third.status, orjson.loads(third.body)["error"]["code"]) == (503, "channels_at_capacity")
    for call in calls:
        async with call:
            await call.rest()
    used = set()
    for call in calls:
        row = await gateway.record(call.heard().request_id)
        used.add(row.attempts.all()[0].channel_id)
    assert used == {gateway.channel.pk, second.pk}
    await gateway.recorded()
    assert (await gateway.chat("echo-0")).status == 200


IMAGE = orjson.dumps({"model": "image-slow-1", "prompt": "a lock", "n": 1})
JSON = ("Content-Type", "application/json")


async def image_pool(gateway, **flags):
    defaults = {"ENABLED": True, "MAX_CONCURRENT_REQUESTS": 1}
    for name, value in {**defaults, **flags}.items():
        await gateway.configure(runtime_flag_set, name=f"IMAGE_CONCURRENCY_{name}", value=value)


async def draw(gateway):
    return await gateway.ask("POST", "/v1/images/generations", JSON, body=IMAGE)


async def test_a_pool_of_one_rejects_the_second_image_and_text_goes_on(gateway):
    """Another channel has room, and failures of image requests may go to it: this is none."""
    await image_pool(gateway)
    await gateway.add_channel(gateway.simulator.base_url, name="second")
    await gateway.configure(image_failover_set, enabled=True, ambiguous=True, uncertain=True)
    first = asyncio.create_task(draw(gateway))
    await eventually(lambda: not gateway.simulator.running_requests, "the upstream was never asked")
    second = await draw(gateway)
    assert second.status == 429
    assert "Image limit" in orjson.loads(second.body)["error"]["message"]
    assert (await gateway.chat("echo-0")).status == 200
    assert (await first).status == 200
    await gateway.recorded()
    assert (await draw(gateway)).status == 200
    assert await gateway.run(health_store().states) == {}, "a hit is no failure of a channel"
    assert len(gateway.simulator.requests) == 3, "and starts no failover"


async def test_a_pool_of_one_serves_waiters_in_their_order(gateway):
    await image_pool(gateway, OVERFLOW_MODE="wait")
    order: list[int] = []

    async def drawn(number: int) -> int:
        heard = await draw(gateway)
        order.append(number)
        return heard.status

    gate, tasks = wiring.current().image_gate, []
    for number in range(3):
        tasks.append(asyncio.create_task(drawn(number)))
        await eventually(lambda: not gateway.simulator.running_requests, "the upstream was never asked")
        await eventually(lambda: gate.waiting != len(tasks) - 1, "not in line")
    assert await asyncio.gather(*tasks) == [200, 200, 200]
    assert order == [0, 1, 2]


async def test_a_waiter_is_told_of_a_slot_and_need_not_look_for_it(gateway, monkeypatch):
    monkeypatch.setattr("gateway.admission.image_gate.RETRY_S", 60.0)
    await image_pool(gateway, OVERFLOW_MODE="wait")
    heard = await asyncio.wait_for(asyncio.gather(*(draw(gateway) for _ in range(3))), 20)
    assert [one.status for one in heard] == [200] * 3


async def test_a_waiter_whose_client_leaves_frees_its_place(gateway):
    await image_pool(gateway, OVERFLOW_MODE="wait", MAX_WAITING_REQUESTS=1)
    first = asyncio.create_task(draw(gateway))
    await eventually(lambda: not gateway.simulator.running_requests, "the upstream was never asked")
    call = await gateway.begin("POST", "/v1/images/generations", JSON, body=IMAGE)
    async with call:
        gate = wiring.current().image_gate
        await eventually(lambda: not gate.waiting, "nobody waits")
        call.leave()
        await eventually(lambda: gate.waiting, "the place is not free")
    assert (await first).status == 200
    assert len(gateway.simulator.requests) == 1


async def test_the_store_away_is_503_not_401_and_running_requests_go_on(gateway, monkeypatch):
    call = await gateway.begin_chat("interval-0.05", text="one two three four", stream=True)
    async with call:
        await call.read_until(b"one")

        async def away(*_args, **_kwargs):
            raise admission.StoreUnavailable("test")

        with monkeypatch.context() as patch:
            patch.setattr(wiring.current().admissions._port, "admit", away)
            heard = await gateway.chat("echo-0")
            assert (heard.status, orjson.loads(heard.body)["error"]["code"]) == (503, "admission_unavailable")
        rest = await call.rest()
        assert b"[DONE]" in rest.body


async def test_clients_that_leave_during_admission_leave_nothing_behind(gateway, monkeypatch):
    port = wiring.current().admissions._port
    admit = port.admit
    begun, left = [], []

    async def slow(epoch, ask):
        begun.append(ask.request_id)
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            left.append(ask.request_id)
            raise
        return await admit(epoch, ask)

    monkeypatch.setattr(port, "admit", slow)
    for _ in range(20):
        call = await gateway.begin("POST", "/v1/chat/completions", JSON, body=chat_body("echo-0"))
        async with call:
            await eventually(lambda: len(begun) == len(left), "it was not admitted")
            call.leave()
            await eventually(lambda: left != begun, "its admission goes on")
    assert gateway.simulator.requests == []


async def test_with_a_cap_requests_run_while_the_store_is_away_and_are_held_once_it_is_back(
    gateway, monkeypatch
):
    parts = wiring.current()
    monkeypatch.setattr(parts.admissions, "_outage", OutageAllowance(10 * USD))
    assert (await gateway.chat("echo-0")).status == 200  # the tenant's balance was seen

    async def away(*_args, **_kwargs):
        raise admission.StoreUnavailable("test")

    with monkeypatch.context() as patch:
        patch.setattr(parts.admissions._port, "admit", away)
        call = await gateway.begin_chat("interval-0.05", text="one two three four " * 10, stream=True)
        await call.read_until(b"one")
        poor = await gateway.configure(lambda: an_api_key(a_funded_tenant())[1])
        assert (await gateway.chat("echo-0", key=poor)).status == 503
    async with call:
        await parts.open_requests._beat()
        held = await gateway.run(admission.open_records().open_amounts)
        assert held.get(gateway.tenant.pk, 0) > 0
        assert (await call.rest()).is_done
    assert len(await gateway.charges()) == 2
