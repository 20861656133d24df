"""Usage that an upstream tells afterwards: asked for with the channel's key, and the charge put right."""

import asyncio
import datetime

import pytest
from celery import current_app
from django.utils import timezone

from billing.models import Account, LedgerEntry, UsageLookup
from billing.services.usage_lookups import TRIES_MAX
from channels_admin.services import channel_update
from channels_admin.snapshots import load_channel
from gateway.schedule import GATEWAY_SCHEDULE
from gateway.usage_lookups import look_up_due_usage
from tests.billing.books import assert_books_balance
from tests.factories.money import IN_NANO, OUT_NANO
from tests.fakes.tiny_proxy import TinyProxy
from tests.flows.gateway import in_thread

TEXT = "incomprehensibilities antidisestablishmentarianism"
PROMPT, ANSWER = 2, 2
"""What the simulator, which counts words, tells of this text and its echo. A tokenizer counts more."""
TOLD_NANO = PROMPT * IN_NANO + ANSWER * OUT_NANO


@pytest.fixture
async def channel(gateway):
    """OpenRouter's kind, before all others."""
    return await gateway.add_channel(f"{gateway.simulator.base_url}/api", kind="openrouter", priority=9)


async def look_up(gateway) -> int:
    """As if the next run were due for every pending look-up."""

    def run() -> int:
        UsageLookup.objects.update(due_at=timezone.now() - datetime.timedelta(seconds=1))
        return look_up_due_usage()

    await gateway.recorded()
    return await gateway.run(run)


async def lookup_of(gateway, request_id: str) -> UsageLookup:
    return await gateway.run(UsageLookup.objects.get, pk=request_id)


async def entries(gateway) -> list[tuple[str, int]]:
    def read() -> list[tuple[str, int]]:
        assert_books_balance()
        rows = LedgerEntry.objects.exclude(kind="opening").order_by("id")
        return list(rows.values_list("source", "amount_nano"))

    return await gateway.run(read)


def asked(gateway) -> list:
    return [one for one in gateway.simulator.requests if one.path.endswith("/generation")]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_estimated_charge_becomes_what_the_upstream_tells(gateway, channel, stream):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=stream)
    request_id = heard.header("x-request-id")
    row = await gateway.record(request_id)
    assert (row.estimated, row.usage.source) == (True, "estimated")
    estimated = row.cost_nano
    assert await look_up(gateway) == 1
    row = await gateway.record(request_id)
    assert estimated > TOLD_NANO
    assert (row.cost_nano, row.estimated, row.usage.source) == (TOLD_NANO, False, "reported")
    assert (row.usage.input, row.usage.output, row.usage.method) == (PROMPT, ANSWER, "later_usage")
    assert await entries(gateway) == [
        (f"charge:{request_id}", -estimated),
        (f"correction:{request_id}:later_usage", estimated - TOLD_NANO),
    ]
    account = await gateway.run(Account.objects.get, tenant=gateway.tenant)
    assert account.balance_nano == 100 * 10**9 - TOLD_NANO


async def test_it_is_asked_with_the_key_that_got_the_answer(gateway, channel):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()
    known = await gateway.run(load_channel, channel.name)

    await look_up(gateway)
    [one] = asked(gateway)
    assert (one.method, one.path) == ("GET", "/api/v1/generation")
    assert one.header("authorization") == f"Bearer {known.keys[0].secret.reveal()}"
    assert one.query["id"].encode() in heard.body
    assert (one.body, one.header("x-api-key")) == (b"", None)
    [attempt] = (await gateway.record(heard.request_id)).attempts.all()
    assert attempt.answer_id == one.query["id"]


async def test_an_upstream_that_knows_nothing_yet_is_asked_again(gateway, channel):
    heard = await gateway.chat("usage-later-1", text=TEXT, stream=True)
    assert await look_up(gateway) == 0
    lookup = await lookup_of(gateway, heard.request_id)
    assert (lookup.state, lookup.tries, lookup.error_class) == ("pending", 1, "status_404")
    assert await gateway.run(look_up_due_usage) == 0  # not due
    assert len(asked(gateway)) == 1
    assert await look_up(gateway) == 1
    lookup = await lookup_of(gateway, heard.request_id)
    assert (lookup.state, lookup.tries, lookup.error_class) == ("done", 2, "")
    assert (await gateway.record(heard.request_id)).cost_nano == TOLD_NANO
    assert await look_up(gateway) == 0
    assert len(asked(gateway)) == 2
    await entries(gateway)


async def test_a_client_that_left_pays_what_the_upstream_counted(gateway, channel):
    words = " ".join(f"word{number}" for number in range(60))
    call = await gateway.begin_chat("interval-0.02", text=words, stream=True)
    async with call:
        await call.read_until(b"word4")
        call.leave()
    await gateway.idle()
    row = await gateway.record(call.heard().request_id)
    assert (row.end_reason, row.estimated) == ("client_disconnected", True)
    assert await look_up(gateway) == 1
    row = await gateway.record(call.heard().request_id)
    assert row.cost_nano == 60 * IN_NANO + 60 * OUT_NANO
    assert row.end_reason == "client_disconnected"
    await entries(gateway)


async def test_two_runs_at_once_ask_and_correct_once(gateway, channel):
    for _ in range(3):
        await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()
    await gateway.run(UsageLookup.objects.update, due_at=timezone.now() - datetime.timedelta(seconds=1))
    loop = asyncio.get_running_loop()
    both = [gateway.run(look_up_due_usage), loop.run_in_executor(None, in_thread, look_up_due_usage)]
    assert sum(await asyncio.gather(*both)) == 3
    assert len(asked(gateway)) == 3
    booked = await entries(gateway)
    assert len([source for source, _ in booked if source.endswith(":later_usage")]) == 3


async def test_an_upstream_that_never_tells_is_given_up_and_the_estimate_stands(gateway, channel):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    charged = (await gateway.record(heard.request_id)).cost_nano
    gateway.simulator.reset()
    for _ in range(TRIES_MAX + 2):
        assert await look_up(gateway) == 0
    lookup = await lookup_of(gateway, heard.request_id)
    assert (lookup.state, lookup.tries, lookup.error_class) == ("given_up", TRIES_MAX, "status_404")
    assert len(asked(gateway)) == TRIES_MAX
    assert await entries(gateway) == [(f"charge:{heard.request_id}", -charged)]
    assert (await gateway.record(heard.request_id)).estimated


async def test_addresses_are_guarded_here_too(gateway, channel, settings):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()
    settings.UPSTREAM_ALLOWED_PRIVATE_NETS = ()
    await look_up(gateway)
    assert (await lookup_of(gateway, heard.request_id)).error_class == "AddressRefused"
    assert asked(gateway) == []


async def test_the_channels_proxy_is_taken(gateway, channel):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()
    async with TinyProxy() as proxy:
        await gateway.configure(channel_update, channel_id=channel.pk, proxy_url=proxy.url)
        await look_up(gateway)
    [line] = proxy.seen
    answer_id = (await lookup_of(gateway, heard.request_id)).answer_id
    assert line == f"GET {gateway.simulator.base_url}/api/v1/generation?id={answer_id} HTTP/1.1".encode()


async def test_a_channel_of_another_kind_by_now_is_not_asked(gateway, channel):
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()
    await gateway.run(type(channel).objects.filter(pk=channel.pk).update, kind="openai")
    await look_up(gateway)
    assert (await lookup_of(gateway, heard.request_id)).error_class == "kind_tells_nothing"
    assert asked(gateway) == []


async def test_reported_usage_is_not_asked_for(gateway, channel):
    heard = await gateway.chat("echo-0", stream=True)
    [attempt] = (await gateway.record(heard.request_id)).attempts.all()
    assert attempt.channel_name == channel.name
    assert attempt.answer_id.startswith("chatcmpl-")
    assert not await gateway.run(UsageLookup.objects.exists)


async def test_the_task_is_scheduled_and_runs(gateway, channel):
    entry = GATEWAY_SCHEDULE["look-up-usage"]
    heard = await gateway.chat("usage-missing", text=TEXT, stream=True)
    await gateway.recorded()

    def run() -> None:
        UsageLookup.objects.update(due_at=timezone.now() - datetime.timedelta(seconds=1))
        current_app.tasks[entry["task"]].apply()

    await gateway.run(run)
    assert (await lookup_of(gateway, heard.request_id)).state == "done"
    assert entry["schedule"] == 30.0
