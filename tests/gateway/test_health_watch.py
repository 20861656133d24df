"""The runtime's view of health: cooldowns at once, failures that add up, routes that go out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

import pytest

from channels_admin.health import HealthUnavailable, Route, RouteKind
from channels_admin.health.memory import MemoryHealth
from channels_admin.models import Channel, UpstreamKey
from channels_admin.services import channel_set_status
from channels_admin.statuses import RouteStatus
from gateway.health_watch import HealthWatch
from relay.core.end_reasons import HealthEffect
from relay.core.health import AttemptVerdict, Blames
from tests.factories.channels import a_channel
from tests.flows.gateway import in_thread

P = ParamSpec("P")
T = TypeVar("T")

pytestmark = pytest.mark.django_db(transaction=True)


async def elsewhere(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """ORM work away from the loop, which leaves no connection behind."""
    return await asyncio.to_thread(in_thread, function, *args, **kwargs)


def a_verdict(
    channel: Channel,
    effect: HealthEffect,
    *,
    blames: Blames = Blames.CHANNEL,
    cooldown_s: float = 0.0,
    reason: str = "status_503",
) -> AttemptVerdict:
    return AttemptVerdict(
        channel_id=channel.pk,
        key_id=channel.upstream_keys.get().pk,
        effect=effect,
        blames=blames,
        cooldown_s=cooldown_s,
        reason=reason,
        at=0.0,
    )


@pytest.fixture
async def watch() -> AsyncIterator[HealthWatch]:
    made = HealthWatch(MemoryHealth(), threshold=lambda: 3)
    await made.start()
    yield made
    await made.aclose()


async def eventually_out(channel: Channel) -> Channel:
    for _ in range(50):
        await asyncio.sleep(0.05)
        row = await elsewhere(Channel.objects.get, pk=channel.pk)
        if row.status != RouteStatus.ENABLED:
            return row
    return row


async def test_the_threshold_switches_a_channel_off_with_its_reason(watch: HealthWatch) -> None:
    channel = await elsewhere(a_channel)
    verdict = await elsewhere(a_verdict, channel, HealthEffect.FAILURE)
    for _ in range(3):
        watch.note(verdict)
    row = await eventually_out(channel)
    assert row.status == RouteStatus.AUTO_DISABLED
    assert "3 failures" in row.status_reason
    assert "status_503" in row.status_reason
    assert (await elsewhere(UpstreamKey.objects.get, channel=channel)).status == RouteStatus.ENABLED


async def test_a_success_between_starts_the_row_afresh(watch: HealthWatch) -> None:
    channel = await elsewhere(a_channel)
    failure = await elsewhere(a_verdict, channel, HealthEffect.FAILURE)
    success = await elsewhere(a_verdict, channel, HealthEffect.SUCCESS)
    for _ in range(2):
        watch.note(failure)
    await asyncio.sleep(0.5)  # the store knows that it fails
    watch.note(success)
    await asyncio.sleep(0.5)
    for _ in range(2):
        watch.note(failure)
    await asyncio.sleep(0.7)
    assert (await elsewhere(Channel.objects.get, pk=channel.pk)).status == RouteStatus.ENABLED


async def test_what_is_neutral_counts_for_nothing(watch: HealthWatch) -> None:
    channel = await elsewhere(a_channel)
    verdict = await elsewhere(a_verdict, channel, HealthEffect.NEUTRAL)
    for _ in range(10):
        watch.note(verdict)
    await asyncio.sleep(0.5)
    assert (await elsewhere(Channel.objects.get, pk=channel.pk)).status == RouteStatus.ENABLED


async def test_a_bad_key_goes_out_and_its_channel_stays(watch: HealthWatch) -> None:
    channel = await elsewhere(a_channel)
    verdict = await elsewhere(
        a_verdict, channel, HealthEffect.FAILURE, blames=Blames.KEY, reason="status_401"
    )
    for _ in range(3):
        watch.note(verdict)
    for _ in range(50):
        await asyncio.sleep(0.05)
        key = await elsewhere(UpstreamKey.objects.get, channel=channel)
        if key.status == RouteStatus.AUTO_DISABLED:
            break
    assert key.status == RouteStatus.AUTO_DISABLED
    assert (await elsewhere(Channel.objects.get, pk=channel.pk)).status == RouteStatus.ENABLED


async def test_a_cooldown_acts_within_the_same_step_and_reaches_the_store(watch: HealthWatch) -> None:
    channel = await elsewhere(a_channel)
    verdict = await elsewhere(
        a_verdict, channel, HealthEffect.NEUTRAL, blames=Blames.KEY, cooldown_s=0.6, reason="status_429"
    )
    assert not watch.is_cooling(channel.pk, verdict.key_id)
    watch.note(verdict)
    assert watch.is_cooling(channel.pk, verdict.key_id)
    assert not watch.is_cooling(channel.pk, verdict.key_id + 1)
    await asyncio.sleep(0.4)  # read back from the store meanwhile
    assert watch.is_cooling(channel.pk, verdict.key_id)
    await asyncio.sleep(0.5)
    assert not watch.is_cooling(channel.pk, verdict.key_id)


class FailsOnce(MemoryHealth):
    """The store goes away in the middle of a batch, and is back."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.calls_left: int | None = at

    def failed(self, route: Route) -> int:
        if self.calls_left == 0:
            self.calls_left = None
            raise HealthUnavailable
        if self.calls_left is not None:
            self.calls_left -= 1
        return super().failed(route)


@pytest.mark.parametrize("at", [0, 1, 3])
async def test_each_failure_counts_once_though_the_store_failed_in_between(at: int) -> None:
    store = FailsOnce(at)
    watch = HealthWatch(store, threshold=lambda: 100)
    channel = await elsewhere(a_channel)
    verdict = await elsewhere(a_verdict, channel, HealthEffect.FAILURE)
    for _ in range(4):
        watch.note(verdict)
    await watch.start()
    await watch.aclose()
    assert store.calls_left is None
    assert store.states()[Route(RouteKind.CHANNEL, channel.pk)].failures == 4


async def test_of_too_many_verdicts_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.health_watch.VERDICTS_KEPT", 2)
    store = FailsOnce(0)
    watch = HealthWatch(store, threshold=lambda: 100)
    channels = [await elsewhere(a_channel, name=f"c{number}") for number in range(3)]
    first, second, third = [await elsewhere(a_verdict, channel, HealthEffect.FAILURE) for channel in channels]
    watch.note(first)
    watch.note(second)
    await watch.start()
    watch.note(third)
    await watch.aclose()
    assert {route.id for route in store.states()} == {channel.pk for channel in channels[1:]}


async def test_hand_disabled_stays_as_it_is_and_switched_on_starts_afresh() -> None:
    store = MemoryHealth()
    watch = HealthWatch(store, threshold=lambda: 1)
    await watch.start()
    channel = await elsewhere(a_channel)
    await elsewhere(channel_set_status, channel_id=channel.pk, status=RouteStatus.DISABLED, reason="by hand")
    watch.note(await elsewhere(a_verdict, channel, HealthEffect.FAILURE))
    await watch.aclose()
    row = await elsewhere(Channel.objects.get, pk=channel.pk)
    assert (row.status, row.status_reason) == (RouteStatus.DISABLED, "by hand")
    assert store.states()[Route(RouteKind.CHANNEL, channel.pk)].failures == 1
