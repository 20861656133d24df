"""`/v1/{anything}`: the same bytes on both sides, nothing that is not theirs, and no way round the routes."""

import asyncio
import json

import pytest

from channels_admin.services import channel_update
from gateway.simulator.shapes.audio import SPEECH
from tests.fakes.scripted_upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    ScriptedUpstream,
    Send,
    WaitLost,
    chunk,
    head,
    ok,
)
from tests.flows.client import Call
from tests.flows.gateway import UPSTREAM_SECRET

JSON = ("Content-Type", "application/json")
ALL_BYTES = bytes(range(256)) * 8


async def test_speech_is_byte_exact_and_keeps_its_type(gateway):
    body = b'{"model":"tts","input":"hello","response_format":"wav"}'
    heard = await gateway.ask("POST", "/v1/audio/speech", JSON, body=body)
    assert (heard.status, heard.header("content-type")) == (200, "audio/wav")
    assert heard.body == SPEECH
    [received] = gateway.simulator.requests
    assert received.body == body, "nothing had to change"
    row = await gateway.record(heard.request_id)
    assert (row.family, row.end_reason, row.model_asked) == ("audio", "completed", "tts")
    assert row.response_bytes == len(SPEECH)


async def test_any_body_is_mirrored_byte_for_byte(gateway):
    octets = ("Content-Type", "application/x-own; v=1")
    heard = await gateway.ask("POST", "/v1/own/thing?mirror=1", octets, body=ALL_BYTES)
    assert (heard.status, heard.body) == (200, ALL_BYTES)
    assert heard.header("content-type") == "application/x-own; v=1"


async def test_multipart_keeps_parts_order_names_and_bytes(gateway):
    boundary = "----grenzwert7"
    parts = [
        ('form-data; name="image[]"; filename="katze-größe-猫.png"', "image/png", ALL_BYTES),
        ('form-data; name="image[]"; filename="two.png"', "image/png", b"\r\n--not-the-boundary\r\n"),
        ('form-data; name="mask"; filename="mask.png"', "image/png", b"\x00\xff"),
        ('form-data; name="prompt"', None, "ein Hut für die Katze".encode()),
    ]
    body = b""
    for disposition, content_type, content in parts:
        body += f"--{boundary}\r\nContent-Disposition: {disposition}\r\n".encode()
        body += f"Content-Type: {content_type}\r\n".encode() if content_type else b""
        body += b"\r\n" + content + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    kind = f"multipart/form-data; boundary={boundary}"
    heard = await gateway.ask("POST", "/v1/images/edits", ("Content-Type", kind), body=body)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.body == body
    assert received.content_type == kind
    assert received.header("content-length") == str(len(body))
    files = [(part.name, part.filename) for part in received.parts if part.filename]
    assert files == [("image[]", "katze-größe-猫.png"), ("image[]", "two.png"), ("mask", "mask.png")]


async def test_the_query_is_kept_but_for_credentials(gateway):
    query = "a=1&b=%2F%20x&a=2&key=sk-leak-1&flag&api_key=sk-leak-2&access%5Ftoken=sk-leak-3&z="
    heard = await gateway.ask("GET", f"/v1/own/thing?{query}")
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.raw_path == "/v1/own/thing?a=1&b=%2F%20x&a=2&flag&z="


async def test_a_key_in_the_query_opens_the_door_and_goes_no_further(gateway):
    heard = await gateway.ask("GET", f"/v1/own/thing?key={gateway.key}&x=1", key=None)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.raw_path == "/v1/own/thing?x=1"
    assert received.header("authorization") == f"Bearer {UPSTREAM_SECRET}"


@pytest.mark.parametrize("name", ["x-api-key", "x-goog-api-key", "api-key"])
async def test_other_places_of_the_key(gateway, name):
    heard = await gateway.ask("GET", "/v1/own/thing", (name, gateway.key), key=None)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.header(name) is None
    assert gateway.key not in str(received.headers)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_every_method_passes(gateway, method):
    heard = await gateway.ask(method, "/v1/own/thing", body=b"{}" if method != "GET" else b"")
    assert (heard.status, heard.json()["method"]) == (200, method)


async def test_head_is_passed_on_as_head(gateway):
    heard = await gateway.ask("HEAD", "/v1/own/thing")
    assert (heard.status, heard.body) == (200, b"")
    [received] = gateway.simulator.requests
    assert received.method == "HEAD"


CLIENT_HEADERS = [
    ("Cookie", "session=tenant-cookie"),
    ("OpenAI-Organization", "org-tenant"),
    ("OpenAI-Project", "proj-tenant"),
    ("X-Goog-User-Project", "goog-tenant"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("Forwarded", "for=203.0.113.9"),
    ("X-Real-IP", "203.0.113.9"),
    ("Proxy-Authorization", "Basic dGVuYW50"),
    ("X-Api-Key", "sk-tenant-second-key"),
    ("X-Unknown", "tenant-unknown"),
    ("TE", "trailers"),
    ("Connection", "close, openai-beta"),
    ("OpenAI-Beta", "hop-by-hop-by-name"),
]


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/own/thing"])
async def test_what_is_the_clients_never_reaches_the_upstream(gateway, target):
    body = b'{"model":"echo-0","messages":[{"role":"user","content":"hi"}]}'
    passing = [("User-Agent", "agent/7"), ("Anthropic-Version", "2023-06-01"), JSON]
    raw_headers = [*CLIENT_HEADERS, *passing]
    heard = await gateway.ask("POST", target, *raw_headers, body=body)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    names = {name.lower() for name, _ in received.headers}
    assert names <= {
        "host", "authorization", "user-agent", "anthropic-version", "content-type", "content-length",
        "accept", "accept-encoding",
    }  # fmt: skip
    assert (received.header("user-agent"), received.header("anthropic-version")) == ("agent/7", "2023-06-01")
    assert received.header("authorization") == f"Bearer {UPSTREAM_SECRET}"
    assert received.header("accept-encoding") == "identity"
    sent = str(received.headers)
    assert gateway.key not in sent
    assert not [value for _, value in CLIENT_HEADERS[:10] if value in sent]


async def test_idempotency_keys_of_two_tenants_do_not_meet_upstream(gateway):
    from tests.factories.channels import an_api_key  # noqa: PLC0415  needs Django set up
    from tests.factories.money import a_funded_tenant  # noqa: PLC0415

    _, other = await gateway.configure(lambda: an_api_key(a_funded_tenant()))
    given = ("Idempotency-Key", "order-7")
    for key in ("", other, ""):
        await gateway.chat("echo-0", given, key=key)
    first, second, again = (received.header("idempotency-key") for received in gateway.simulator.requests)
    assert first == again
    assert len({first, second, "order-7"}) == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_the_operators_never_comes_back(gateway, stream):
    heard = await gateway.chat("private-headers", stream=stream)
    assert heard.status == 200
    names = {name for name, _ in heard.headers}
    assert not names & {"set-cookie", "server", "openai-organization", "x-internal-host"}
    assert not [name for name in names if "ratelimit" in name]
    assert heard.header("openai-processing-ms") == "12"
    text = str(heard.headers)
    assert not [word for word in ("operator", "10.0.0.7", "upstream-internal") if word in text]


async def test_a_mapped_model_in_a_passed_body_changes_nothing_else(gateway):
    await gateway.configure(
        channel_update, channel_id=gateway.channel.pk, model_mapping={"public": "text-embedding-x"}
    )
    body = b'{"input":["\\u00e4", 1e2],"model":"public","dimensions":1.50}'
    heard = await gateway.ask("POST", "/v1/embeddings", JSON, body=body)
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.json["model"] == "text-embedding-x"
    assert received.header("content-length") == str(len(received.body))
    assert b"1.50" in received.body, "numbers keep their spelling"


async def test_an_upstream_stream_passes_event_by_event(gateway):
    go_on = asyncio.Event()
    from tests.fakes.scripted_upstream import WaitFor  # noqa: PLC0415  beside its only use

    script = [
        Send(SSE_HEAD + chunk(b'event: transcript.text.delta\ndata: {"delta":"a"}\n\n')),
        WaitFor(go_on),
        Send(chunk(b"id: 7\ndata: last\n\n") + LAST_CHUNK),
    ]  # fmt: skip
    async with ScriptedUpstream(script) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        call = await gateway.begin("POST", "/v1/own/stream", JSON, body=b"{}")
        async with call:
            await call.read_until(b'{"delta":"a"}')
            go_on.set()
            heard = await call.rest()
        assert heard.body == b'event: transcript.text.delta\ndata: {"delta":"a"}\n\nid: 7\ndata: last\n\n'
        await gateway.idle()


async def test_an_unfinished_body_looks_unfinished(gateway):
    """Binary has no in-band error: the connection breaks off instead."""
    from tests.fakes.scripted_upstream import Pause, Reset  # noqa: PLC0415  beside its only use

    began = head(b"Content-Type: application/octet-stream", b"Content-Length: 1000")
    script = [Send(began + b"x" * 100), Pause(0.1), Reset()]
    async with ScriptedUpstream(script) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        heard = await gateway.ask("POST", "/v1/own/file", JSON, body=b"{}")
        assert heard.status == 200
        assert not heard.is_whole
        assert heard.is_reset
        row = await gateway.record(heard.request_id)
        assert row.end_reason == "upstream_reset"


async def test_leaving_a_passed_download_closes_the_upstream(gateway):
    began = head(b"Content-Type: application/octet-stream", b"Content-Length: 100000")
    async with ScriptedUpstream([Send(began + b"x" * 100), WaitLost()]) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        call = await gateway.begin("GET", "/v1/own/file")
        async with call:
            await call.read_until(b"xxx")
            call.leave()
            await upstream.connections[0].wait_lost(0.5)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_statuses_without_a_body(gateway, status):
    answer = head(b'ETag: "7"', status=status)
    async with ScriptedUpstream([Send(answer)]) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        heard = await gateway.ask("GET", "/v1/own/thing", ("If-None-Match", '"7"'))
        assert (heard.status, heard.body) == (int(status[:3]), b"")
        assert heard.header("etag") == '"7"'


async def test_a_length_of_zero_is_an_answer(gateway):
    async with ScriptedUpstream([Send(ok())]) as upstream:
        await gateway.configure(channel_update, channel_id=gateway.channel.pk, base_url=upstream.url)
        heard = await gateway.ask("POST", "/v1/own/thing", body=b"x")
        assert (heard.status, heard.body, heard.is_whole) == (200, b"", True)


WITHHELD = [
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/file-1/content"),
    ("GET", "/v1/batches"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("GET", "/v1/assistants"),
    ("POST", "/v1/threads/t1/runs"),
    ("GET", "/v1/vector_stores"),
    ("POST", "/v1/containers"),
    ("GET", "/v1/organization/usage/completions"),
    ("POST", "/v1/projects/p/api_keys"),
    ("GET", "/v1/admin/keys"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/v1/videos/video_1/content"),
    ("DELETE", "/v1/models/ft:mine"),
    ("POST", "/v1/messages/batches"),
    ("GET", "/v1/chat/completions"),
    ("GET", "/v1/FILES"),
    ("GET", "/v1/%66iles"),
    ("GET", "/v1/v1/files"),
]


@pytest.mark.parametrize(("method", "target"), WITHHELD)
async def test_objects_of_the_shared_account_do_not_pass(gateway, method, target):
    heard = await gateway.ask(method, target, body=b"{}" if method == "POST" else b"")
    is_ours = target in {"/v1/chat/completions", "/v1/models/ft:mine"}
    assert heard.status == (405 if is_ours else 404)
    assert gateway.simulator.requests == []


@pytest.mark.parametrize(
    "target", ["/v1/responses/", "/v1/Responses", "/v1/openai/responses", "/v1/responses/novel"]
)
async def test_another_spelling_of_responses_names_no_stored_object_either(gateway, target):
    heard = await gateway.ask("POST", target, body=b'{"model":"echo","previous_response_id":"resp_1"}')
    assert heard.status == 400
    assert json.loads(heard.body)["error"]["param"] == "previous_response_id"
    assert gateway.simulator.requests == []


TRICKS = [
    "/v1/../admin/",
    "/v1/chat/../files",
    "/v1/./files",
    "/v1//files",
    "//v1/files",
    "/v1/own//thing",
    "/v1/%2e%2e/admin/",
    "/v1/own/%2E%2E/files",
    "/v1/own/.%2e/files",
    "/v1/own%2F..%2Ffiles",
    "/v1%2Ffiles",
    "/v1/own%2fthing",
    "/v1/own%5Cthing",
    "/v1/own\\..\\files",
    "/v1/own%00thing",
    "/v1/own%0d%0aX-Evil:1",
    "/v1/own%252e%252e/files",
    "/v1/models/..%2Ffiles",
    "/v1/models/../files",
    "/v1/own;x=1/thing",
    "http://evil.example/v1/files",
    "http://evil.example/v1/../v1/own/thing",
    "http://evil.example",
]


@pytest.mark.parametrize("target", TRICKS)
async def test_path_tricks_reach_nothing(gateway, target):
    heard = await gateway.ask("GET", target)
    assert heard.status == (400 if target == "http://evil.example" else 404)
    assert gateway.simulator.requests == []
    assert b"Django" not in heard.body


@pytest.mark.parametrize("target", ["/v1/chat/completions/..%2f..%2ffiles", "/v1/chat/completions%2F.."])
async def test_path_tricks_with_a_body(gateway, target):
    body = b'{"model":"echo-0","messages":[{"role":"user","content":"hi"}]}'
    heard = await gateway.ask("POST", target, JSON, body=body)
    assert heard.status == 404
    assert gateway.simulator.requests == []


async def test_a_path_in_other_letters_is_another_path(gateway):
    """It passes as one that we do not know, and as it is."""
    target, body = "/v1/Chat/Completions/", b'{"model":"echo-0","messages":[{"role":"user","content":"hi"}]}'
    assert (await gateway.ask("POST", target, JSON, body=body)).status == 200
    assert [received.path for received in gateway.simulator.requests] == [target]


async def test_a_targets_host_means_nothing(gateway):
    """Absolute form must be accepted (RFC 9112, section 3.2.2): its path counts, its host does not."""
    heard = await gateway.ask("GET", "http://user:secret@evil.example/v1/own/thing?x=1")
    assert heard.status == 200
    [received] = gateway.simulator.requests
    assert received.raw_path == "/v1/own/thing?x=1"
    assert received.header("host") == gateway.simulator.base_url.removeprefix("http://")
    unknown = await gateway.ask("GET", "http://evil.example/v1/own/thing", key=None)
    assert unknown.status == 401


async def test_two_lengths_are_not_two_requests(gateway):
    """Request smuggling: whatever the server makes of it, no second request comes out."""
    inner = f"GET /v1/own/inner HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n\r\n"
    raw = (
        f"POST /v1/own/outer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
        f"Content-Length: {len(inner) + 5}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n{inner}"
    )
    call = await Call.begin(gateway.server.host, gateway.server.port, raw.encode())
    async with call:
        await call.rest()
    assert "/v1/own/inner" not in [received.path for received in gateway.simulator.requests]


async def test_a_key_limited_to_models_cannot_hide_its_model(gateway):
    """A request whose model nobody can read (query, path, an unknown form) is not for a key that is limited."""
    from tests.factories.channels import an_api_key  # noqa: PLC0415  needs Django set up

    _, key = await gateway.configure(an_api_key, gateway.tenant, allowed_models=["cheap"])
    form = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nexpensive\r\n--b--\r\n'
    kind = ("Content-Type", "multipart/form-data; boundary=b")
    tries = [
        await gateway.ask("POST", "/v1/own/edits", kind, body=form, key=key),
        await gateway.ask("POST", "/v1/images/edits", kind, body=form, key=key),
        await gateway.ask("POST", "/v1/engines/expensive/completions", JSON, body=b'{"prompt":"x"}', key=key),
        await gateway.ask("GET", "/v1/own/thing?model=expensive", key=key),
        await gateway.ask(
            "POST", "/v1/embeddings", JSON, body=b'{"model":"cheap","model":"expensive"}', key=key
        ),
    ]
    assert [heard.status for heard in tries] == [403, 404, 403, 403, 404]
    assert gateway.simulator.requests == []
    allowed = await gateway.ask(
        "POST", "/v1/embeddings", JSON, body=b'{"model":"cheap","input":"x"}', key=key
    )
    assert allowed.status == 200
