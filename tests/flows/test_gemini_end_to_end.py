"""Gemini's API over sockets: what passes, what is recorded and paid, and errors in its shape."""

import orjson
import pytest

from channels_admin.services import channel_update
from tests.factories.channels import an_api_key, an_upstream_key
from tests.flows.gateway import QUESTION

JSON = ("Content-Type", "application/json")


@pytest.fixture
async def googles(gateway):
    """The gateway's one channel is of Google's kind."""
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, kind="gemini")
    return gateway


async def asked(gateway, model, verb="generateContent", *, query="", version="v1beta", key="", **fields):
    body = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}], **fields}
    target = f"/{version}/models/{model}:{verb}{query}"
    return await gateway.ask("POST", target, JSON, body=orjson.dumps(body), key=key)


async def streamed(gateway, model, **options):
    return await asked(gateway, model, "streamGenerateContent", **{"query": "?alt=sse", **options})


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_a_stream_is_passed_and_recorded(googles, version):
    heard = await streamed(googles, "usage-cached", version=version)
    assert heard.status == 200
    assert (heard.header("content-type") or "").startswith("text/event-stream")
    assert heard.is_whole
    record = await googles.record(heard.request_id)
    assert (record.end_reason, record.dialect, record.model_asked) == ("completed", "gemini", "usage-cached")
    assert (record.usage.output, record.usage.source) == (5, "reported")
    assert record.usage.cached_input > 0
    [received] = googles.simulator.requests
    assert received.path == f"/{version}/models/usage-cached:streamGenerateContent"


async def test_an_array_without_alt(googles):
    heard = await streamed(googles, "echo-0", query="")
    assert (heard.header("content-type") or "").startswith("application/json")
    chunks = heard.json()
    texts = [part["text"] for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == QUESTION
    record = await googles.record(heard.request_id)
    assert (record.end_reason, record.dialect, record.usage.output) == ("completed", "gemini_array", 5)
    assert googles.simulator.requests[0].query == {"alt": "sse"}


async def test_an_array_that_breaks_off_ends_with_the_error(googles):
    heard = await streamed(googles, "eof-after-3", query="")
    *chunks, last = heard.json()
    assert chunks
    assert last["error"]["status"] == "UNAVAILABLE"
    assert (await googles.record(heard.request_id)).end_reason == "incomplete"


@pytest.mark.parametrize("model", ["usage-missing", "eof-after-3"])
async def test_usage_that_never_came_is_estimated(googles, model):
    heard = await streamed(googles, model)
    record = await googles.record(heard.request_id)
    assert record.usage.source == "estimated"
    assert record.usage.input == 5
    assert 3 <= record.usage.output <= 5


async def test_token_counts_are_free(googles):
    heard = await asked(googles, "echo-0", "countTokens")
    assert heard.json() == {"totalTokens": 5}
    record = await googles.record(heard.request_id)
    assert (record.end_reason, record.usage.input, record.usage.output) == ("completed", 0, 0)


async def test_vectors_are_paid_by_their_texts(googles):
    content = {"parts": [{"text": QUESTION}]}
    one = await asked(googles, "echo-0", "embedContent", content=content)
    assert one.json()["embedding"]["values"]
    many = await asked(googles, "echo-0", "batchEmbedContents", requests=[{"content": content}] * 2)
    assert len(many.json()["embeddings"]) == 2
    usages = [(await googles.record(heard.request_id)).usage for heard in (one, many)]
    assert [usage.output for usage in usages] == [0, 0]
    assert usages[1].input > usages[0].input > 0


async def test_another_key_is_tried_where_google_says_400_to_a_key_it_does_not_know(googles):
    await googles.configure(an_upstream_key, googles.channel)
    heard = await asked(googles, "api-key-invalid")
    assert heard.status == 502
    assert len({received.header("x-goog-api-key") for received in googles.simulator.requests}) == 2


async def test_the_key_may_stand_in_the_query_and_goes_no_further(googles):
    heard = await asked(googles, "echo-0", query=f"?key={googles.key}&x=1", key=None)
    assert heard.status == 200
    assert googles.simulator.requests[0].query == {"x": "1"}


@pytest.mark.parametrize(
    ("status", "word", "request_of"),
    [
        (401, "UNAUTHENTICATED", {"key": None}),
        (401, "UNAUTHENTICATED", {"key": "sk-" + "u" * 40}),
        (404, "NOT_FOUND", {"verb": "batchGenerateContent"}),
        (404, "NOT_FOUND", {"verb": "predictLongRunning"}),
        (400, "INVALID_ARGUMENT", {"contents": None}),
        (400, "INVALID_ARGUMENT", {"model": "dear"}),
        (400, "INVALID_ARGUMENT", {"cachedContent": "cachedContents/x"}),
        (400, "INVALID_ARGUMENT", {"query": "?fields=candidates"}),
        (400, "INVALID_ARGUMENT", {"query": "?alt=proto"}),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_refusals_in_the_shape_of_this_api(googles, status, word, request_of, version):
    fields = dict(request_of)
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    body |= {name: fields.pop(name) for name in ("contents", "model", "cachedContent") if name in fields}
    target = f"/{version}/models/echo-0:{fields.pop('verb', 'generateContent')}{fields.pop('query', '')}"
    heard = await googles.ask("POST", target, JSON, body=orjson.dumps(body), **fields)
    assert (heard.status, heard.error["code"], heard.error["status"]) == (status, status, word)
    assert list(heard.json()) == ["error"]
    assert heard.told_request_id == heard.request_id
    assert googles.simulator.requests == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_other_methods(googles, method, version):
    heard = await googles.ask(method, f"/{version}/models/m:generateContent", JSON)
    assert (heard.status, heard.error["status"]) == (405, "UNIMPLEMENTED")


NO_URL, NO_CALL = (404, "NOT_FOUND"), (405, "UNIMPLEMENTED")
"""A model's page exists, and is read with GET alone: its name may be anything, a verb's too."""


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        ("/v1beta", NO_URL),
        ("/v1beta/", NO_URL),
        ("/v1beta/files", NO_URL),
        ("/v1beta/cachedContents", NO_URL),
        ("/v1beta/models/m:x", NO_CALL),
    ],
)
async def test_unknown_urls_in_the_shape_of_this_api(googles, target, refused):
    heard = await googles.ask("POST", target, JSON, body=b"{}")
    assert (heard.status, heard.error["status"]) == refused
    assert googles.simulator.requests == []


PATH_TRICKS = {
    "echo-0%3AgenerateContent": "/v1beta/models/echo-0:generateContent",
    "echo%2D0:generateContent": "/v1beta/models/echo-0:generateContent",
    "org/echo-0:generateContent": "/v1beta/models/org/echo-0:generateContent",
    "org%2Fecho-0:generateContent": "/v1beta/models/org%2Fecho-0:generateContent",
    "a:b:generateContent": "/v1beta/models/a:b:generateContent",
}


@pytest.mark.parametrize("spelt", PATH_TRICKS)
async def test_spellings_of_a_path(googles, spelt):
    body = orjson.dumps({"contents": [{"parts": [{"text": QUESTION}]}]})
    heard = await googles.ask("POST", f"/v1beta/models/{spelt}", JSON, body=body)
    assert heard.status == 200
    assert [received.raw_path for received in googles.simulator.requests] == [PATH_TRICKS[spelt]]


@pytest.mark.parametrize(
    ("spelt", "refused"),
    [
        ("echo-0:generateContent/", NO_CALL),
        ("../models/echo-0:generateContent", NO_URL),
        ("%2e%2e/echo-0:generateContent", NO_URL),
        ("echo-0%253AgenerateContent", NO_CALL),
        ("echo-0:GENERATECONTENT", NO_CALL),
        ("//echo-0:generateContent", NO_URL),
        ("a%00b:generateContent", NO_URL),
    ],
)
async def test_spellings_that_are_no_call(googles, spelt, refused):
    heard = await googles.ask("POST", f"/v1beta/models/{spelt}", JSON, body=b'{"contents":[]}')
    assert (heard.status, heard.error["status"]) == refused
    assert googles.simulator.requests == []


async def test_tuned_models_are_models_under_their_own_name(googles):
    await googles.configure(channel_update, channel_id=googles.channel.pk, models=["tunedModels/mine"])
    target, body = "/v1beta/tunedModels/mine:generateContent", b'{"contents":[{"parts":[{"text":"hi"}]}]}'
    heard = await googles.ask("POST", target, JSON, body=body)
    assert heard.status == 200
    assert (await googles.record(heard.request_id)).model_asked == "tunedModels/mine"
    assert googles.simulator.requests[0].path == target
    hidden = await asked(googles, "mine")
    assert hidden.status == 404


async def test_pictures_by_predict_are_asked_for_once(googles):
    await googles.configure(an_upstream_key, googles.channel)
    heard = await asked(googles, "status-503", "predict", instances=[{"prompt": "x"}])
    assert heard.status == 503
    assert len(googles.simulator.requests) == 1


async def test_channels_are_asked_in_their_own_dialect_only(gateway):
    """One model, a channel of each kind: each request goes to the channel that speaks its dialect."""
    theirs = await gateway.add_channel(gateway.simulator.base_url, kind="gemini", models=["*"])
    heard = [await asked(gateway, "echo-0"), await gateway.chat("echo-0")]
    assert [received.path for received in gateway.simulator.requests] == [
        "/v1beta/models/echo-0:generateContent",
        "/v1/chat/completions",
    ]
    records = [await gateway.record(one.request_id) for one in heard]
    assert [record.attempts.all()[0].channel_id for record in records] == [theirs.pk, gateway.channel.pk]


async def test_a_model_behind_other_kinds_is_told_apart_from_one_that_is_unknown(gateway):
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=["gpt-4o"])
    heard = await asked(gateway, "gpt-4o")
    assert heard.status == 404
    assert "not available on this endpoint" in heard.error["message"]
    assert gateway.simulator.requests == []


async def test_a_key_that_may_not_use_a_model_may_not_name_it_in_any_spelling(googles):
    _, key = await googles.configure(an_api_key, googles.tenant, allowed_models=["cheap"])
    body = b'{"contents":[{"parts":[{"text":"hi"}]}]}'
    for spelt in ("dear", "models/dear", "de%61r", "cheap:generateContent/../dear", "cheap%2F..%2Fdear"):
        heard = await googles.ask("POST", f"/v1beta/models/{spelt}:generateContent", JSON, body=body, key=key)
        assert heard.status == 404, spelt
    assert googles.simulator.requests == []


async def test_lists_are_in_googles_form_for_googles_sdks_and_hold_what_is_the_callers(googles):
    await googles.configure(channel_update, channel_id=googles.channel.pk, models=["gemini-b", "gemini-a"])
    for target, headers in (("/v1beta/models", ()), ("/v1/models", (("x-goog-api-client", "genai"),))):
        heard = await googles.ask("GET", target, *headers)
        assert [model["name"] for model in heard.json()["models"]] == ["models/gemini-a", "models/gemini-b"]
        one = await googles.ask("GET", f"{target}/gemini-a", *headers)
        assert one.json()["displayName"] == "gemini-a"
        none = await googles.ask("GET", f"{target}/gemini-c", *headers)
        assert (none.status, none.error["status"]) == (404, "NOT_FOUND")
    page = await googles.ask("GET", "/v1beta/models?pageSize=1")
    assert page.json()["nextPageToken"] == "gemini-a"
    rest = await googles.ask("GET", "/v1beta/models?pageSize=1&pageToken=gemini-a")
    assert [model["name"] for model in rest.json()["models"]] == ["models/gemini-b"]
    assert "nextPageToken" not in rest.json()
    bad = await googles.ask("GET", "/v1beta/models?pageSize=x")
    assert (bad.status, bad.error["status"]) == (400, "INVALID_ARGUMENT")
    assert (await googles.ask("GET", "/v1/models")).json()["object"] == "list"
