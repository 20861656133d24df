"""Strings that must stay where they belong: planted everywhere, looked for everywhere else."""

import asyncio
import logging
import secrets
from dataclasses import dataclass, field

import orjson
import pytest
import redis
from django.apps import apps
from django.conf import settings
from django.test import Client

from billing import admission
from billing.models import DeadOutcome
from billing.services.replay import dead_outcome_replay
from billing.tasks import record_settled
from channels_admin.models import UpstreamKey
from channels_admin.services import (
    channel_update,
    runtime_flag_set,
    upstream_key_add,
    upstream_key_set_status,
)
from channels_admin.statuses import RouteStatus
from tests.factories.channels import a_staff_user
from tests.fakes.scripted_upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, Send, chunk, ok
from tests.flows.gateway import wiring_is_eager

PAGES = (
    "/admin/billing/relayrequest/",
    "/admin/billing/deadoutcome/",
    "/admin/channels_admin/channel/",
    "/admin/channels_admin/upstreamkey/",
    "/admin/channels_admin/apikey/",
    "/admin/channels_admin/tenant/",
)


def _word(name: str) -> str:
    """Letters only: nothing that a pattern would take for a credential."""
    return name + "".join(secrets.choice("bcdfghjklm") for _ in range(12))


@dataclass
class Canaries:
    prompt: str = field(default_factory=lambda: _word("prompt"))
    completion: str = field(default_factory=lambda: _word("completion"))
    arguments: str = field(default_factory=lambda: _word("arguments"))
    upstream_key: str = field(default_factory=lambda: _word("plainsecret"))
    idempotency: str = field(default_factory=lambda: _word("idempotency"))
    parameter: str = field(default_factory=lambda: _word("parameter"))
    unknown_key: str = field(default_factory=lambda: _word("unknownkey"))
    api_key: str = ""

    def found_in(self, text: str, *, but: tuple[str, ...] = ()) -> list[str]:
        return [name for name, value in vars(self).items() if name not in but and value in text]


def _json(value: object, status: bytes = b"200 OK") -> bytes:
    return ok(orjson.dumps(value), b"Content-Type: application/json", status=status)


def _event(value: object) -> bytes:
    return chunk(b"data: " + orjson.dumps(value) + b"\n\n")


def _choice(delta: object, finish: str | None = None) -> dict:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _good_stream(c: Canaries) -> bytes:
    function = {"name": "f", "arguments": orjson.dumps({"a": c.arguments}).decode()}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    events = [
        _choice({"role": "assistant", "content": c.completion}),
        _choice({"tool_calls": [call]}),
        _choice({}, "tool_calls"),
    ]
    return SSE_HEAD + b"".join(map(_event, events)) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK


def _good_whole(c: Canaries) -> bytes:
    message = {"role": "assistant", "content": c.completion}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return _json({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})


def _quoting(c: Canaries) -> dict:
    """An error that quotes everything, in every field."""
    return {
        "error": {
            "message": f"Key {c.upstream_key} may not ask '{c.prompt}' ({c.completion}, {c.arguments}).",
            "type": c.upstream_key,
            "code": f"not {c.prompt}",
            "param": c.upstream_key,
        }
    }


def _error_mid_stream(c: Canaries) -> bytes:
    begun = _event(_choice({"role": "assistant", "content": "fine"}))
    return SSE_HEAD + begun + _event(_quoting(c)) + LAST_CHUNK


ANSWERS = {
    "good stream": (_good_stream, True),
    "good whole": (_good_whole, False),
    "400 that quotes": (lambda c: _json(_quoting(c), b"400 Bad Request"), True),
    "401 that quotes": (lambda c: _json(_quoting(c), b"401 Unauthorized"), True),
    "429 that quotes": (lambda c: _json(_quoting(c), b"429 Too Many Requests"), False),
    "500 that quotes": (lambda c: _json(_quoting(c), b"500 Internal Server Error"), False),
    "500 in plain text": (
        lambda c: ok(f"boom {c.upstream_key} {c.prompt}".encode(), b"Content-Type: text/plain", status=b"500 Oops"),
        True,
    ),
    "500 as vendor detail": (lambda c: _json({"detail": f"{c.prompt} {c.upstream_key}"}, b"500 Oops"), True),
    "error in a 200": (lambda c: _json(_quoting(c)), False),
    "error as first event": (lambda c: SSE_HEAD + _event(_quoting(c)) + LAST_CHUNK, True),
    "error in mid-stream": (_error_mid_stream, True),
    "not JSON": (lambda c: ok(f'{{"{c.completion}": {c.prompt}'.encode(), b"Content-Type: application/json"), False),
    "HTML": (lambda c: ok(f"<p>{c.prompt} {c.upstream_key}".encode(), b"Content-Type: text/html"), True),
    "bad status line": (lambda c: f"SSH {c.upstream_key} {c.prompt}\r\n\r\n".encode(), True),
    "frame that is no JSON": (
        lambda c: SSE_HEAD + _event(_choice({"content": "a"})) + chunk(f"data: {{{c.completion}\n\n".encode()) + LAST_CHUNK,
        True,
    ),
}  # fmt: skip


def _body(c: Canaries, *, stream: bool) -> bytes:
    tool = {"type": "function", "function": {"name": "f", "description": c.arguments}}
    messages = [{"role": "system", "content": c.arguments}, {"role": "user", "content": c.prompt}]
    asked = {
        "model": "m",
        "messages": messages,
        "tools": [tool],
        "stream": stream,
        "metadata": {"x": c.prompt},
    }
    return orjson.dumps(asked)


@pytest.fixture
def everything_logged(caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("celery", "django", "uvicorn", "asyncio", "aiohttp", "gateway", "billing", "relay"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


@pytest.fixture
async def planted(gateway, everything_logged, monkeypatch):
    """(gateway, canaries, payloads that went into the store)."""
    canaries = Canaries(api_key=gateway.key)
    payloads: list[bytes] = []
    port = admission.admission_port()
    settle = port.settle

    async def spy(records):
        payloads.extend(record.payload for record in records)
        await settle(records)

    monkeypatch.setattr(port, "settle", spy)
    await gateway.configure(_plant_key, gateway.channel.pk, canaries.upstream_key)
    return gateway, canaries, payloads


def _plant_key(channel_id: int, plain: str) -> None:
    """As the channel's only usable one."""
    for key in UpstreamKey.objects.filter(channel=channel_id):
        upstream_key_set_status(upstream_key_id=key.pk, status=RouteStatus.DISABLED)
    upstream_key_add(channel_id=channel_id, plain=plain)


async def _ask(gateway, canaries: Canaries, body: bytes):
    return await gateway.ask(
        "POST",
        f"/v1/chat/completions?key={canaries.parameter}",
        ("Content-Type", "application/json"),
        ("Idempotency-Key", canaries.idempotency),
        body=body,
    )


async def _dead_outcome(gateway) -> DeadOutcome:
    """The first there is. In the services lane this plays the worker."""
    async with asyncio.timeout(5):
        while (dead := await gateway.run(DeadOutcome.objects.first)) is None:
            if not wiring_is_eager():
                await gateway.run(record_settled)
            await asyncio.sleep(0.01)
    return dead


async def _nothing_leaked(gateway, canaries: Canaries, payloads: list[bytes], caplog) -> None:
    await gateway.recorded()
    assert canaries.found_in(caplog.text) == [], "in the log"
    everything = b"\n".join(payloads).decode("latin-1")
    assert canaries.found_in(everything) == [], "in the store"
    assert await gateway.run(_leaks_in_database, canaries) == []
    caplog.set_level(logging.WARNING, logger="django")  # each variable a template lacks would be a traceback
    assert await gateway.run(_leaks_in_console, canaries) == []


def _leaks_in_database(canaries: Canaries) -> list[str]:
    found = []
    for model in apps.get_models():
        for row in model._base_manager.all():
            for column in model._meta.concrete_fields:
                value = column.value_from_object(row)
                text = bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
                found += [f"{model._meta.label}.{column.name}: {name}" for name in canaries.found_in(text)]
    return found


def _leaks_in_console(canaries: Canaries) -> list[str]:
    """The list of each page, and the first row of each list."""
    client = Client()
    client.force_login(a_staff_user("superuser"))
    found = []
    for page in PAGES:
        app, model = page.strip("/").split("/")[1:]
        rows = apps.get_model(app, model)._base_manager.values_list("pk", flat=True)
        for url in [page, *(f"{page}{pk}/change/" for pk in rows[:20])]:
            response = client.get(url, follow=True)
            assert response.status_code == 200, url
            found += [f"{url}: {name}" for name in canaries.found_in(response.content.decode())]
    return found


@pytest.mark.parametrize("name", ANSWERS)
async def test_whatever_the_upstream_says(planted, everything_logged, name):
    gateway, canaries, payloads = planted
    make, stream = ANSWERS[name]
    async with ScriptedUpstream([Send(make(canaries))]) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        heard = await _ask(gateway, canaries, _body(canaries, stream=stream))
        await gateway.idle()
        request = upstream.requests[-1]  # a server error is asked for twice
        assert canaries.upstream_key in request.headers[b"authorization"].decode(), (
            "the test must plant the key"
        )
    own = ("prompt", "completion", "arguments")  # the client's own question and its answer
    assert canaries.found_in(heard.body.decode() + str(heard.headers), but=own) == []
    if name.startswith("good"):
        assert canaries.completion in heard.body.decode()
    assert payloads
    await _nothing_leaked(gateway, canaries, payloads, everything_logged)


def _store_dump() -> str:
    """All that the admission store holds, names of keys too."""
    if not settings.REDIS_URL:
        core, idempotency = (
            admission.admission_port()._core,
            admission.admission_port().idempotency,
        )
        payloads = [record.payload for record in core.book.records.values()]
        return repr((core.book.records, payloads, idempotency._entries, idempotency._answers))
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        read = {
            b"string": client.get,
            b"hash": client.hgetall,
            b"set": client.smembers,
            b"zset": lambda key: client.zrange(key, 0, -1),
        }
        keys = list(client.scan_iter(f"{settings.ADMISSION_KEY_PREFIX}*"))
        return repr([(key, read[client.type(key)](key)) for key in keys])


async def test_an_answer_that_is_kept_is_sealed(planted, everything_logged):
    gateway, canaries, payloads = planted
    await gateway.configure(runtime_flag_set, name="IDEMPOTENT_ANSWERS", value=True)
    async with ScriptedUpstream([Send(_good_whole(canaries))]) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        first = await _ask(gateway, canaries, _body(canaries, stream=False))
        await gateway.idle()
        again = await _ask(gateway, canaries, _body(canaries, stream=False))
        assert len(upstream.requests) == 1
    assert again.header("idempotent-replayed") == "true"
    assert canaries.completion in again.body.decode()
    dump = await gateway.run(_store_dump)
    assert first.request_id in dump
    assert canaries.found_in(dump) == []
    await _nothing_leaked(gateway, canaries, payloads, everything_logged)


async def test_bad_requests_and_bad_keys(planted, everything_logged):
    gateway, canaries, payloads = planted
    broken = b'{"model":"m","messages":[{"role":"user","content":"' + canaries.prompt.encode() + b'"'
    refused = [
        await _ask(gateway, canaries, broken),
        await _ask(gateway, canaries, b'{"messages":[{"content":"' + canaries.prompt.encode() + b'"}]}'),
        await gateway.chat("m", text=canaries.prompt, key=canaries.unknown_key),
        await gateway.ask("GET", f"/v1/models?key={canaries.unknown_key}", key=None),
        await gateway.ask("GET", f"/v1/files?key={canaries.parameter}"),
        await gateway.ask("GET", f"/v1//x?key={canaries.parameter}"),
    ]
    assert all(400 <= heard.status < 500 for heard in refused)
    assert not [leak for heard in refused for leak in canaries.found_in(heard.body.decode(), but=())]
    await _nothing_leaked(gateway, canaries, payloads, everything_logged)


BUGS = {
    "in the view": ("gateway.relay_flow._candidates", 500),
    "before sending": ("relay.upstream.attempt.upstream_request", 500),
    "while reading": ("relay.upstream.readings.events.EventReader.judge", 500),
    "while writing": ("relay.upstream.pump.Pump._take", 0),
    "after the end": ("relay.upstream.record._attempt_outcome", 200),
}
"""Where it is, and the status that the client hears; 0: the connection breaks off."""


@pytest.mark.parametrize("place", BUGS)
async def test_a_bug_in_the_relay(planted, everything_logged, monkeypatch, place):
    """Its exception quotes the question and the credential: neither log nor client may see them."""
    gateway, canaries, payloads = planted
    name, status = BUGS[place]

    def fails(*args, **kwargs):
        raise RuntimeError(f"{canaries.prompt} {canaries.upstream_key} {canaries.api_key}")

    with monkeypatch.context() as patch:
        patch.setattr(name, fails)
        heard = await _ask(gateway, canaries, _body(canaries, stream=True))
        await gateway.idle()
    own = ("prompt",) if place == "after the end" else ()  # the simulator echoes it
    assert canaries.found_in(heard.body.decode(), but=own) == []
    assert heard.status == status
    await _nothing_leaked(gateway, canaries, payloads, everything_logged)


async def test_a_bug_in_the_worker(planted, everything_logged, monkeypatch):
    """Rows that cannot be written are kept as dead outcomes: those hold no more than the outcome did."""
    gateway, canaries, payloads = planted

    def fails(*args, **kwargs):
        raise ValueError(f"{canaries.prompt} {canaries.upstream_key}")

    with monkeypatch.context() as patch:
        patch.setattr("billing.services.outcome_rows.request_row", fails)
        await _ask(gateway, canaries, _body(canaries, stream=True))
        await gateway.idle()
        dead = await _dead_outcome(gateway)
    assert await gateway.run(dead_outcome_replay, dead)  # till then it keeps its hold
    await _nothing_leaked(gateway, canaries, payloads, everything_logged)
