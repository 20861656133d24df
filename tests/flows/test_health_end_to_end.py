"""Channels and keys that fail go out by themselves, rest after a 429, and come back when a probe succeeds."""

import asyncio
import datetime

import pytest
from django.utils import timezone

from channels_admin.health import Route, RouteKind, health_store
from channels_admin.models import Channel, UpstreamKey
from channels_admin.services import channel_set_status, channel_update, runtime_flag_set
from channels_admin.services.route_health import route_cooldown_clear
from channels_admin.statuses import RouteStatus
from gateway import wiring
from gateway.route_probes import probe_due_routes


async def status_of(gateway, model, pk: int) -> tuple[str, str]:
    def read() -> tuple[str, str]:
        row = model.objects.get(pk=pk)
        return row.status, row.status_reason

    return await gateway.run(read)


async def until_out(gateway, model, pk: int) -> str:
    """The reason with which it went out."""
    for _ in range(60):
        status, reason = await status_of(gateway, model, pk)
        if status == RouteStatus.AUTO_DISABLED:
            return reason
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {status}")


async def one_try(gateway) -> None:
    for flag in ("CHANNEL_RETRY_TIMES", "RETRY_TIMES"):
        await gateway.configure(runtime_flag_set, name=flag, value=0)
    await gateway.configure(runtime_flag_set, name="HEALTH_FAILURE_THRESHOLD", value=3)


async def test_a_channel_that_fails_goes_out_and_a_probe_brings_it_back(gateway):
    await one_try(gateway)
    channel = gateway.channel
    await gateway.configure(
        channel_update, channel_id=channel.pk, models=["*", "asked"], model_mapping={"asked": "status-500"}
    )
    for _ in range(3):
        assert (await gateway.chat("asked")).status == 500
    reason = await until_out(gateway, Channel, channel.pk)
    assert "3 failures" in reason
    assert "500" in reason
    await wiring.current().configuration.refresh()
    assert (await gateway.chat("asked")).error["code"] == "no_channel_available"

    def due() -> None:
        earlier = timezone.now() - datetime.timedelta(minutes=1)
        Channel.objects.filter(pk=channel.pk).update(status_changed_at=earlier)

    await gateway.run(due)
    assert await gateway.run(probe_due_routes) == 0  # it still fails
    assert (await status_of(gateway, Channel, channel.pk))[0] == RouteStatus.AUTO_DISABLED
    asked = len(gateway.simulator.requests)
    assert await gateway.run(probe_due_routes) == 0
    assert len(gateway.simulator.requests) == asked, "a failed probe rests before it asks again"
    await gateway.run(route_cooldown_clear, route=Route(RouteKind.CHANNEL, channel.pk))
    await gateway.configure(channel_update, channel_id=channel.pk, model_mapping={"asked": "echo-0"})
    assert await gateway.run(probe_due_routes) == 1
    assert await status_of(gateway, Channel, channel.pk) == (RouteStatus.ENABLED, "")
    await wiring.current().configuration.refresh()
    assert (await gateway.chat("asked")).status == 200


@pytest.mark.parametrize("models", [["*"], ["echo*", "error*"]])
async def test_a_channel_of_patterns_is_asked_for_what_it_answered_last(gateway, models):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=models)
    assert (await gateway.chat("echo-0")).status == 200
    assert (await gateway.chat("error-in-200")).status == 502
    await gateway.recorded()
    gateway.simulator.requests.clear()
    await gateway.run(out_for_a_minute, gateway.channel.pk)
    assert await gateway.run(probe_due_routes) == 1
    [probed] = gateway.simulator.requests
    assert probed.json["model"] == "echo-0"


async def test_a_channel_that_nobody_knows_how_to_ask_waits_for_an_operator(gateway):
    await gateway.run(out_for_a_minute, gateway.channel.pk)
    assert await gateway.run(probe_due_routes) == 0
    assert gateway.simulator.requests == []


def out_for_a_minute(channel_id: int) -> None:
    earlier = timezone.now() - datetime.timedelta(minutes=1)
    row = Channel.objects.get(pk=channel_id)
    channel_set_status(channel_id=row.pk, status=RouteStatus.AUTO_DISABLED, reason="test")
    Channel.objects.filter(pk=row.pk).update(status_changed_at=earlier)


async def test_what_an_operator_disabled_is_never_probed(gateway):
    await gateway.configure(
        channel_set_status, channel_id=gateway.channel.pk, status=RouteStatus.DISABLED, reason="by hand"
    )
    assert await gateway.run(probe_due_routes) == 0
    assert gateway.simulator.requests == []
    assert await status_of(gateway, Channel, gateway.channel.pk) == (RouteStatus.DISABLED, "by hand")


async def test_a_bad_key_goes_out_alone(gateway):
    await one_try(gateway)
    for _ in range(3):
        assert (await gateway.chat("refuse-keys")).status == 502
    key = await gateway.run(lambda: UpstreamKey.objects.get(channel=gateway.channel).pk)
    assert "401" in await until_out(gateway, UpstreamKey, key)
    assert (await status_of(gateway, Channel, gateway.channel.pk))[0] == RouteStatus.ENABLED


@pytest.mark.parametrize("model", ["status-400", "context-length", "keepalive-only"])
async def test_what_is_the_request_s_or_the_client_s_fault_never_counts(gateway, model):
    await one_try(gateway)
    for _ in range(4):
        if model == "keepalive-only":
            call = await gateway.begin_chat(model, stream=True)
            async with call:
                await asyncio.sleep(0.05)
                call.leave()
        else:
            assert (await gateway.chat(model)).status == 400
    await gateway.idle()
    await asyncio.sleep(0.5)
    assert (await status_of(gateway, Channel, gateway.channel.pk))[0] == RouteStatus.ENABLED
    assert await gateway.run(health_store().states) == {}


async def test_a_429_rests_the_key_in_all_processes_and_can_be_cleared(gateway):
    await one_try(gateway)
    assert (await gateway.chat("429-retry-after-7")).status == 429
    refused = await gateway.chat("echo-0")
    assert (refused.status, refused.error["code"]) == (503, "no_channel_available")
    assert int(refused.header("retry-after")) >= 1
    assert len(gateway.simulator.requests) == 1
    key = await gateway.run(lambda: UpstreamKey.objects.get(channel=gateway.channel).pk)
    await asyncio.sleep(0.4)
    states = await gateway.run(health_store().states)
    assert 20 < states[Route(RouteKind.KEY, key)].cooling_s <= 30  # 30 s at least, whatever it asks for
    await gateway.run(route_cooldown_clear, route=Route(RouteKind.KEY, key))
    await asyncio.sleep(0.5)
    assert (await gateway.chat("echo-0")).status == 200
