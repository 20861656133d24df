"""`/v1/models`, unknown models, bad bodies, CORS, HEAD: what is answered without an upstream."""

import pytest

from channels_admin.services import channel_update
from tests.factories.channels import a_tenant, an_api_key

JSON = ("Content-Type", "application/json")


@pytest.fixture
async def listed(gateway):
    models = ["gpt-4o", "org/model-a", "org/deep/model-b", "a:b+c"]
    await gateway.configure(channel_update, channel_id=gateway.channel.pk, models=models)
    return gateway


async def test_the_list(listed):
    heard = await listed.ask("GET", "/v1/models")
    assert heard.json()["object"] == "list"
    assert [model["id"] for model in heard.json()["data"]] == [
        "a:b+c",
        "gpt-4o",
        "org/deep/model-b",
        "org/model-a",
    ]
    assert listed.simulator.requests == []


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("gpt-4o", "gpt-4o"),
        ("org/model-a", "org/model-a"),
        ("org%2Fmodel-a", "org/model-a"),
        ("org%2fmodel-a", "org/model-a"),
        ("org/deep%2Fmodel-b", "org/deep/model-b"),
        ("a%3Ab+c", "a:b+c"),
    ],
)
async def test_one_model_whose_name_holds_a_slash(listed, target, model):
    heard = await listed.ask("GET", f"/v1/models/{target}")
    assert (heard.status, heard.json().get("id")) == (200, model)


async def test_an_unknown_model_names_close_ones(listed):
    heard = await listed.chat("gpt-4", stream=True)
    assert heard.status == 404
    assert (heard.error["code"], heard.error["param"]) == ("model_not_found", "model")
    assert "gpt-4o" in heard.error["message"]
    asked = await listed.ask("GET", "/v1/models/gpt-4")
    assert (asked.status, asked.error["code"]) == (404, "model_not_found")
    assert listed.simulator.requests == []


async def test_a_key_sees_and_uses_its_own_models_only(listed):
    _, key = await listed.configure(an_api_key, listed.tenant, allowed_models=["org/*"])
    heard = await listed.ask("GET", "/v1/models", key=key)
    assert [model["id"] for model in heard.json()["data"]] == ["org/deep/model-b", "org/model-a"]
    refused = await listed.chat("gpt-4o", key=key)
    assert (refused.status, refused.error["code"]) == (404, "model_not_found")
    assert "gpt-4o" not in refused.error["message"].partition("Did you mean")[2]
    assert (await listed.ask("GET", "/v1/models/gpt-4o", key=key)).status == 404


async def test_another_groups_channel_is_not_there(listed):
    def outsider():
        return an_api_key(a_tenant(group="elsewhere"))

    _, key = await listed.configure(outsider)
    heard = await listed.ask("GET", "/v1/models", key=key)
    assert heard.json()["data"] == []
    assert (await listed.chat("gpt-4o", key=key)).status == 404
    assert listed.simulator.requests == []


SIZES = [
    ("", 200),
    ("=1", 200),
    ("=0001", 200),
    ("=0", 400),
    ("=-1", 400),
    ("=x", 400),
    ("=%D9%A3", 400),
    ("=00001" + "9" * 5_000, 400),
]


@pytest.mark.parametrize(("size", "status"), SIZES)
async def test_the_size_of_an_anthropic_page(listed, size, status):
    heard = await listed.ask("GET", f"/v1/models?limit{size}", ("anthropic-version", "2023-06-01"))
    assert heard.status == status


@pytest.mark.parametrize(("size", "status"), [*SIZES[:-1], ("=00001" + "9" * 5_000, 200)])
async def test_the_size_of_a_gemini_page(listed, size, status):
    """More than a page holds is a whole one."""
    heard = await listed.ask("GET", f"/v1beta/models?pageSize{size}")
    assert heard.status == status


async def test_head_has_no_body_and_does_not_hang(listed):
    heard = await listed.ask("HEAD", "/v1/models")
    whole = await listed.ask("GET", "/v1/models")
    assert (heard.status, heard.body) == (200, b"")
    assert heard.header("content-length") == str(len(whole.body))


BAD_BODIES = {
    "cut": b'{"model": "echo", "messages": [',
    "empty": b"",
    "not an object": b'["echo"]',
    "NaN": b'{"model":"echo","messages":[],"temperature":NaN}',
    "not UTF-8": b'{"model":"echo","messages":[{"role":"user","content":"\xff"}]}',
    "lone surrogate": b'{"model":"echo","messages":[{"role":"user","content":"\\ud800"}]}',
    "no model": b'{"messages":[]}',
    "a model that is no text": b'{"model":7,"messages":[]}',
    "two values": b'{"model":"echo","messages":[]} {}',
    "deep": b'{"model":"echo","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_bad_body_is_400_and_costs_the_upstream_nothing(gateway, body):
    heard = await gateway.ask("POST", "/v1/chat/completions", JSON, body=body)
    assert heard.status == 400
    assert heard.error["type"] == "invalid_request_error"
    assert heard.error["request_id"] == heard.request_id
    assert gateway.simulator.requests == []
    assert await gateway.count() == 0, "a refusal is no request"


async def test_a_body_over_the_limit_is_413(gateway, settings):
    head = ("Content-Length", str(settings.MAX_BODY_BYTES + 1))
    heard = await gateway.ask("POST", "/v1/chat/completions", JSON, head)
    assert (heard.status, heard.error["code"]) == (413, "request_too_large")
    assert gateway.simulator.requests == []


async def test_preflight_needs_no_key(gateway, settings):
    settings.CORS_ORIGINS = ("https://app.example",)
    heard = await gateway.ask(
        "OPTIONS",
        "/v1/chat/completions",
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,x-stainless-os"),
        key=None,
    )
    assert heard.status == 204
    assert heard.header("access-control-allow-origin") == "https://app.example"
    assert heard.header("access-control-allow-headers") == "authorization,x-stainless-os"
    assert gateway.simulator.requests == []


@pytest.mark.parametrize(("model", "status"), [("echo-0", 200), ("status-500", 500)])
async def test_answers_and_errors_carry_cors_headers(gateway, settings, model, status):
    settings.CORS_ORIGINS = ("https://app.example",)
    for stream in (True, False):
        heard = await gateway.chat(model, ("Origin", "https://app.example"), stream=stream)
        assert (heard.status, heard.header("access-control-allow-origin")) == (status, "https://app.example")
        foreign = await gateway.chat(model, ("Origin", "https://evil.example"), stream=stream)
        assert foreign.header("access-control-allow-origin") is None


async def test_a_refused_key_is_told_with_cors_headers_too(gateway, settings):
    settings.CORS_ORIGINS = ("*",)
    heard = await gateway.chat("echo", ("Origin", "https://app.example"), key=None)
    assert (heard.status, heard.header("access-control-allow-origin")) == (401, "*")
