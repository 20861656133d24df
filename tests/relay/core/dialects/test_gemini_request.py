"""Gemini's calls: what is read of path, query and body, what is refused, and what the upstream is sent."""

import json

import pytest

from relay.core.dialects.gemini import (
    GEMINI,
    GEMINI_ARRAY,
    GEMINI_COUNT_TOKENS,
    GEMINI_PREDICT,
    GEMINI_VECTORS,
    dialect_of,
)
from relay.core.errors import Refusal
from relay.core.limits_asked import output_limit
from tests.relay.core.dialects.gemini_samples import GENERATE, PATH, QUESTION, STREAM, ask

CONTENT = {"content": {"parts": [{"text": "hi"}]}}


def call(dialect, path, query="", **fields):
    return dialect.parse_call(path, query, json.dumps(fields).encode())


def body_of(dialect, asked, model=None, **overrides):
    built = dialect.build_request(
        asked, model=model or asked.model, stream=False, request_usage=True, overrides=overrides
    )
    return json.loads(built)


def test_what_is_read():
    asked = ask(
        STREAM,
        "alt=sse",
        contents=QUESTION["contents"] * 3,
        tools=[{"functionDeclarations": []}, {"googleSearch": {}}],
        generationConfig={"maxOutputTokens": 50, "candidateCount": 2},
    )
    assert (asked.model, asked.stream, asked.message_count, asked.tool_count) == (
        "gemini-2.5-flash",
        True,
        3,
        2,
    )
    assert output_limit(asked.fields) == 100
    assert not ask(GENERATE).stream


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash"),
        ("/v1/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash"),
        ("/v1beta/models/org/name:generateContent", "org/name"),
        ("/v1beta/models/org%2Fname:generateContent", "org/name"),
        ("/v1beta/models/llama3:8b:generateContent", "llama3:8b"),
        ("/v1beta/models/caf%C3%A9:generateContent", "café"),
        ("/v1beta/tunedModels/mine-1:generateContent", "tunedModels/mine-1"),
    ],
)
def test_the_model_stands_in_the_path(path, model):
    asked = call(GEMINI, path, **QUESTION)
    assert asked.model == model
    assert asked.target.at(model=model, stream=False) == (path, "")


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/:generateContent", "/v1beta/models/m", "/v1beta/models/m:generateContent/",
        "/v1beta/models/m:generate-content", "/v1/m:generateContent", "/v1alpha/models/m:generateContent",
        "/v1beta/models/m:", "/v1beta/tunedModels/m%3AgenerateContent", "/v1beta/files/m:generateContent",
    ],
)  # fmt: skip
def test_other_paths_are_unknown(path):
    with pytest.raises(Refusal) as raised:
        call(GEMINI, path, **QUESTION)
    assert (raised.value.status, raised.value.code) == (404, "unknown_url")


def test_a_name_longer_than_any():
    with pytest.raises(Refusal, match="longer than"):
        call(GEMINI, f"/v1beta/models/{'m' * 300}:generateContent", **QUESTION)


@pytest.mark.parametrize(
    ("verb", "query", "dialect"),
    [
        ("generateContent", "", GEMINI),
        ("generateContent", "alt=json", GEMINI),
        ("streamGenerateContent", "alt=sse", GEMINI),
        ("streamGenerateContent", "%24alt=sse", GEMINI),
        ("streamGenerateContent", "a=b&%61lt=s%73e", GEMINI),
        ("streamGenerateContent", "", GEMINI_ARRAY),
        ("streamGenerateContent", "alt=json", GEMINI_ARRAY),
        ("countTokens", "", GEMINI_COUNT_TOKENS),
        ("embedContent", "", GEMINI_VECTORS),
        ("batchEmbedContents", "", GEMINI_VECTORS),
        ("predict", "", GEMINI_PREDICT),
    ],
)
def test_which_dialect_a_verb_is(verb, query, dialect):
    assert dialect_of(verb, query) is dialect


@pytest.mark.parametrize(
    "verb", ["predictLongRunning", "batchGenerateContent", "asyncBatchEmbedContent", "x"]
)
def test_verbs_that_create_are_not_served(verb):
    with pytest.raises(Refusal) as raised:
        dialect_of(verb, "")
    assert raised.value.status == 404


@pytest.mark.parametrize("query", ["alt=proto", "alt=media", "alt=sse&alt=json", "alt="])
def test_other_forms_of_answers_are_refused(query):
    with pytest.raises(Refusal, match="'alt' must be sse or json"):
        dialect_of("streamGenerateContent", query)
    with pytest.raises(Refusal, match="'alt' must be sse or json"):
        call(GEMINI, GENERATE, query, **QUESTION)


@pytest.mark.parametrize(
    "query", ["fields=candidates", "$fields=a", "%66ields=a", "callback=f", "a=b&fields=c"]
)
def test_masks_that_would_hide_the_usage_are_refused(query):
    with pytest.raises(Refusal) as raised:
        call(GEMINI, GENERATE, query, **QUESTION)
    assert (raised.value.status, raised.value.code) == (400, "unsupported_parameter")


@pytest.mark.parametrize(
    ("path", "query", "stream", "asked"),
    [
        (STREAM, "alt=sse", True, (STREAM, "alt=sse")),
        (STREAM, "", True, (STREAM, "alt=sse")),
        (STREAM, "alt=json&a=%20b", True, (STREAM, "a=%20b&alt=sse")),
        (STREAM, "alt=sse", False, (GENERATE, "")),
        (GENERATE, "a=b", False, (GENERATE, "a=b")),
        (GENERATE, "alt=json", True, (STREAM, "alt=sse")),
    ],
)
def test_where_the_upstream_is_asked(path, query, stream, asked):
    target = call(GEMINI, path, query, **QUESTION).target
    assert target.at(model="gemini-2.5-flash", stream=stream) == asked


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3", "/v1beta/models/gemini-3:generateContent"),
        ("models/gemini-3", "/v1beta/models/gemini-3:generateContent"),
        ("tunedModels/x", "/v1beta/tunedModels/x:generateContent"),
        ("google/gemini-3", "/v1beta/models/google/gemini-3:generateContent"),
        ("a b?c#d%2F", "/v1beta/models/a%20b%3Fc%23d%252F:generateContent"),
    ],
)
def test_mapping_rewrites_the_paths_segment(model, path):
    asked = call(GEMINI, GENERATE, **QUESTION)
    assert asked.target.at(model=model, stream=False) == (path, "")
    assert "model" not in body_of(GEMINI, asked, model)


def test_the_body_keeps_the_clients_own_values():
    body = b'{ "contents" : [{"parts":[{"text":"a\\u00e9"}]}],"generationConfig":{"topP":1.0,"x":{}},"new":[1e2] }'
    asked = GEMINI.parse_call(GENERATE, "", body)
    built = GEMINI.build_request(
        asked, model=asked.model, stream=True, request_usage=True, overrides={"safetySettings": []}
    )
    assert built == (
        b'{"contents":[{"parts":[{"text":"a\\u00e9"}]}],"generationConfig":{"topP":1.0,"x":{}},"new":[1e2],'
        b'"safetySettings":[]}'
    )


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "models/gemini-2.5-flash"])
def test_a_model_in_the_body_is_the_paths_and_follows_the_mapping(name):
    one = call(GEMINI_VECTORS, f"{PATH}:embedContent", model=name, **CONTENT)
    assert body_of(GEMINI_VECTORS, one)["model"] == name
    assert body_of(GEMINI_VECTORS, one, "other")["model"] == "models/other"
    many = call(GEMINI_VECTORS, f"{PATH}:batchEmbedContents", requests=[{"model": name, **CONTENT}, CONTENT])
    assert many.message_count == 2
    assert body_of(GEMINI_VECTORS, many, "other") == {
        "requests": [{"model": "models/other", **CONTENT}, CONTENT]
    }
    count = call(
        GEMINI_COUNT_TOKENS, f"{PATH}:countTokens", generateContentRequest={"model": name, **QUESTION}
    )
    assert body_of(GEMINI_COUNT_TOKENS, count, "other")["generateContentRequest"]["model"] == "models/other"


@pytest.mark.parametrize(
    ("dialect", "verb", "fields", "param"),
    [
        (GEMINI, "generateContent", {"model": "dear", **QUESTION}, "model"),
        (GEMINI, "generateContent", {"model": 7, **QUESTION}, "model"),
        (GEMINI_VECTORS, "embedContent", {"model": "models/dear", **CONTENT}, "model"),
        (
            GEMINI_VECTORS,
            "batchEmbedContents",
            {"requests": [CONTENT, {"model": "dear"}]},
            "requests[1].model",
        ),
        (
            GEMINI_COUNT_TOKENS,
            "countTokens",
            {"generateContentRequest": {"model": "models/dear"}},
            "generateContentRequest.model",
        ),
        (GEMINI_PREDICT, "predict", {"model": "dear", "instances": []}, "model"),
    ],
)
def test_another_model_in_the_body_is_refused(dialect, verb, fields, param):
    """An upstream that obeys the body would be asked for a model that nobody allowed or priced."""
    with pytest.raises(Refusal) as raised:
        call(dialect, f"{PATH}:{verb}", **fields)
    assert (raised.value.status, raised.value.param) == (400, param)


@pytest.mark.parametrize(
    ("dialect", "verb", "fields", "param"),
    [
        (GEMINI, "generateContent", {}, "contents"),
        (GEMINI, "generateContent", {"contents": None}, "contents"),
        (GEMINI, "generateContent", {"contents": "hi"}, "contents"),
        (GEMINI, "generateContent", {"contents": ["hi"]}, "contents"),
        (GEMINI, "generateContent", {**QUESTION, "tools": "x"}, "tools"),
        (GEMINI, "generateContent", {**QUESTION, "cachedContent": "cachedContents/x"}, "cachedContent"),
        (GEMINI, "generateContent", {**QUESTION, "cached_content": "cachedContents/x"}, "cached_content"),
        (GEMINI_COUNT_TOKENS, "countTokens", {}, "contents"),
        (
            GEMINI_COUNT_TOKENS,
            "countTokens",
            {"generateContentRequest": {"cachedContent": "cachedContents/x"}},
            "cachedContent",
        ),
        (GEMINI_VECTORS, "embedContent", {}, "content"),
        (GEMINI_VECTORS, "batchEmbedContents", CONTENT, "requests"),
        (GEMINI_VECTORS, "batchEmbedContents", {"requests": [1]}, "requests"),
        (GEMINI_PREDICT, "predict", {}, "instances"),
    ],
)
def test_bad_bodies_name_the_field(dialect, verb, fields, param):
    with pytest.raises(Refusal) as raised:
        call(dialect, f"{PATH}:{verb}", **fields)
    assert (raised.value.status, raised.value.param) == (400, param)


def test_one_content_may_stand_without_its_list():
    assert call(GEMINI, GENERATE, contents={"parts": [{"text": "hi"}]}).message_count == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"contents":[NaN]}', b'{"contents":"\xff"}', b"[" * 5000]
)
def test_what_is_no_json_object(body):
    with pytest.raises(Refusal) as raised:
        GEMINI.parse_call(GENERATE, "", body)
    assert (raised.value.status, raised.value.code) == (400, "invalid_json")


def test_of_a_name_that_is_there_twice_the_upstream_gets_one():
    body = b'{"contents":[{"parts":[]}],"\\u006dodel":"gemini-2.5-flash","model":"gemini-2.5-flash"}'
    asked = GEMINI.parse_call(GENERATE, "", body)
    assert (
        GEMINI.build_request(asked, model="other", stream=False, request_usage=False, overrides={}).count(
            b"odel"
        )
        == 2
    )
