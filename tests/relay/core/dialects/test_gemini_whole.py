"""Whole answers of Gemini's API: inspected, made of streams, made into streams; errors both ways."""

import json

import pytest

from relay.core.dialects.base import AggregationFailed
from relay.core.dialects.gemini import (
    GEMINI,
    GEMINI_ARRAY,
    GEMINI_COUNT_TOKENS,
    GEMINI_PREDICT,
    GEMINI_VECTORS,
)
from relay.core.errors import Refusal
from tests.relay.core.dialects.gemini_samples import (
    CODE,
    GENERATE,
    HELLO,
    OVERLOADED,
    STREAM,
    THINKING,
    TOOLS,
    TWO,
    aggregated,
    ask,
    calling,
    candidate,
    chunk,
    ended,
    events_of,
    frame,
    observed,
    said,
    usage,
)

WHOLE = {
    "candidates": [
        candidate(
            {"text": "First, then.", "thought": True},
            {"text": "Two words. " * 200, "thoughtSignature": "c2ln"},
            {"text": "Größe 😀 " * 200},
            calling("f", {"a": 1}),
            {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
            finish="STOP",
            safetyRatings=[{"category": "C", "probability": "LOW"}],
            groundingMetadata={"webSearchQueries": ["x"]},
        ),
        candidate({"text": "eins"}, index=1, finish="MAX_TOKENS"),
    ],
    "usageMetadata": usage(7, 900),
    "modelVersion": "gemini-2.5-flash",
    "responseId": "r1",
}


def whole(**body):
    return json.dumps(body).encode()


def test_what_a_whole_answer_says():
    answer = GEMINI.inspect_whole(json.dumps(WHOLE, indent=2).encode())
    assert (answer.error, answer.soft_errors, answer.model) == (None, (), "gemini-2.5-flash")
    assert answer.finish_reasons == ("STOP", "MAX_TOKENS")
    assert (answer.usage.input, answer.usage.output, answer.usage.images) == (7, 900, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"candidates": [{"finishReason": "STOP"}]},
        {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
        {"candidates": [], "usageMetadata": usage(7)},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
)
def test_answers_without_text_are_answers(body):
    assert GEMINI.inspect_whole(json.dumps(body).encode()).error is None


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"7", b"nonsense", b'{"candidates":[]}', b'{"candidates":7}',
        b'{"choices":[{"message":{"content":"Hi"}}]}', b'{"totalTokens":3}', b'{"usageMetadata":{"promptTokenCount":3}}',
    ],
)  # fmt: skip
def test_what_is_no_answer(body):
    with pytest.raises(ValueError, match=r"."):
        GEMINI.inspect_whole(body)


@pytest.mark.parametrize("dialect", [GEMINI, GEMINI_COUNT_TOKENS, GEMINI_VECTORS, GEMINI_PREDICT])
@pytest.mark.parametrize("is_listed", [True, False])
def test_errors_in_a_200(dialect, is_listed):
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    found = dialect.inspect_whole(json.dumps([error] if is_listed else error).encode()).error
    assert (found.message, found.kind, found.status) == ("The model is overloaded.", "UNAVAILABLE", 503)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (GEMINI_COUNT_TOKENS, b"{}"),
        (GEMINI_COUNT_TOKENS, b'{"totalTokens":-1}'),
        (GEMINI_COUNT_TOKENS, b'{"totalTokens":"x"}'),
        (GEMINI_VECTORS, b"{}"),
        (GEMINI_VECTORS, b'{"candidates":[]}'),
        (GEMINI_VECTORS, b"x"),
        (GEMINI_PREDICT, b'{"candidates":[]}'),
        (GEMINI_PREDICT, b"x"),
    ],
)
def test_other_answers_that_are_none(dialect, body):
    with pytest.raises(ValueError, match=r"."):
        dialect.inspect_whole(body)


def test_a_broken_call_is_a_soft_error():
    body = whole(candidates=[candidate(calling("f", "x"), finish="STOP")])
    assert GEMINI.inspect_whole(body).soft_errors == ("tool_call_invalid",)


def test_halves_of_surrogate_pairs_are_read():
    assert GEMINI.inspect_whole(
        b'{"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]},"finishReason":"STOP"}]}'
    )


def test_halves_of_surrogate_pairs_are_exploded_as_what_can_be_written():
    body = json.dumps({"candidates": [candidate({"text": "\ud83d"}, finish="STOP")]}, indent=2).encode()
    [found] = aggregated(*GEMINI.whole_to_events(body, ask(GENERATE)))["candidates"]
    assert found["content"]["parts"] == [{"text": "?"}]


# Stream → whole.


def test_texts_are_joined_and_what_differs_stays_apart():
    [found] = aggregated(THINKING)["candidates"]
    assert found["content"] == {
        "parts": [
            {"text": "First, then.", "thought": True},
            {"text": "12,231"},
            {"text": "", "thoughtSignature": "EqQBCgIYAhIM"},
        ],
        "role": "model",
    }
    assert found["finishReason"] == "STOP"


def test_calls_code_and_signatures_are_kept():
    [found] = aggregated(TOOLS)["candidates"]
    assert found["content"]["parts"] == [
        {"text": "Let me look."},
        calling("get_weather", {"city": "Paris"}, thoughtSignature="c2ln"),
        calling("get_weather", {"city": "Oslo"}),
    ]
    [ran] = aggregated(CODE)["candidates"]
    assert [next(iter(part)) for part in ran["content"]["parts"]] == [
        "executableCode",
        "codeExecutionResult",
        "text",
    ]


def test_candidates_apart_and_the_last_usage():
    found = aggregated(TWO)
    assert [(each["index"], each["finishReason"]) for each in found["candidates"]] == [
        (0, "STOP"),
        (1, "MAX_TOKENS"),
    ]
    assert [each["content"]["parts"][0]["text"] for each in found["candidates"]] == ["one", "eins"]
    assert found["usageMetadata"] == {"promptTokenCount": 7, "candidatesTokenCount": 2}
    assert (found["modelVersion"], found["responseId"]) == ("gemini-2.5-flash", "r1")


def test_logprobs_grow():
    def logged(token, **ends):
        log = {"chosenCandidates": [{"token": token}], "topCandidates": [{"candidates": []}]}
        return chunk(candidate({"text": token}, logprobsResult=log, **ends))

    [found] = aggregated(logged("a") + logged("b", finish="STOP", avgLogprobs=-0.5))["candidates"]
    assert [each["token"] for each in found["logprobsResult"]["chosenCandidates"]] == ["a", "b"]
    assert len(found["logprobsResult"]["topCandidates"]) == 2
    assert found["avgLogprobs"] == -0.5


@pytest.mark.parametrize(
    ("stream", "failure"),
    [
        (said("a"), "incomplete"),
        (b"", "incomplete"),
        (said("a") + ended() + said("b", 1), "incomplete"),
        (said("a") + OVERLOADED, "upstream_error_event"),
        (said("a") + b'data: {"candida\n\n' + ended(), "not_json"),
        (chunk(candidate(calling("", {}))) + ended(), "tool_call_invalid"),
        (frame({"promptFeedback": {}}), "incomplete"),
    ],
)
def test_what_cannot_become_a_whole_answer(stream, failure):
    with pytest.raises(AggregationFailed, match=failure):
        aggregated(stream)


def test_a_blocked_prompt_is_whole():
    assert aggregated(frame({"promptFeedback": {"blockReason": "SAFETY"}})) == {
        "promptFeedback": {"blockReason": "SAFETY"}
    }


def test_halves_of_a_surrogate_pair_join():
    halves = b"".join(
        b'data: {"candidates":[{"content":{"parts":[{"text":"\\u%b"}]}}]}\n\n' % half
        for half in (b"d83d", b"de00")
    )
    [found] = aggregated(halves + ended())["candidates"]
    assert found["content"]["parts"] == [{"text": "😀"}]


# Whole → stream.


@pytest.mark.parametrize("indent", [None, 2])
def test_there_and_back_again(indent):
    frames = list(GEMINI.whole_to_events(json.dumps(WHOLE, indent=indent).encode(), ask(GENERATE)))
    assert len(frames) > 8
    assert all(each.startswith(b"data: {") and each.count(b"\n") == 2 for each in frames)
    assert aggregated(*frames) == WHOLE
    inspector, _, out = observed(*frames, of=ask(generationConfig={"candidateCount": 2}))
    assert out == b"".join(frames)
    assert inspector.facts.is_whole_at_end
    assert inspector.facts.usage.output == 900


@pytest.mark.parametrize("stream", [HELLO, THINKING, TOOLS, CODE, TWO])
def test_a_streams_whole_becomes_the_same_whole(stream):
    once = aggregated(stream)
    assert aggregated(*GEMINI.whole_to_events(json.dumps(once).encode(), ask(GENERATE))) == once


def test_as_an_array():
    pieces = GEMINI_ARRAY.whole_to_events(json.dumps(WHOLE).encode(), ask(STREAM, ""))
    chunks = json.loads(b"".join(pieces))
    assert aggregated(*map(frame, chunks)) == WHOLE


def test_a_blocked_prompt_is_one_event():
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage(7)}
    [only] = GEMINI.whole_to_events(json.dumps(body).encode(), ask(GENERATE))
    assert json.loads(events_of(only)[0].data) == body


def test_what_has_no_events():
    with pytest.raises(ValueError, match="no candidates"):
        GEMINI.whole_to_events(b"{}", ask(GENERATE))


# Errors.


def test_an_error_is_written_in_googles_shape():
    refusal = Refusal(404, "No \ud83d model.", code="model_not_found", param="model", retry_after_s=7)
    body = json.loads(GEMINI.error_body(refusal, "req-1"))
    assert list(body) == ["error"]
    error = body["error"]
    assert (error["code"], error["message"], error["status"]) == (404, "No ? model.", "NOT_FOUND")
    kinds = [detail["@type"].rpartition(".")[2] for detail in error["details"]]
    assert kinds == ["ErrorInfo", "BadRequest", "RetryInfo", "RequestInfo"]
    assert error["details"][0]["reason"] == "model_not_found"
    assert error["details"][1]["fieldViolations"][0]["field"] == "model"
    assert error["details"][2]["retryDelay"] == "7s"
    assert error["details"][3]["requestId"] == "req-1"


@pytest.mark.parametrize(
    ("status", "kind", "word"),
    [
        (400, "invalid_request_error", "INVALID_ARGUMENT"),
        (401, "authentication_error", "UNAUTHENTICATED"),
        (402, "insufficient_quota", "FAILED_PRECONDITION"),
        (413, "invalid_request_error", "INVALID_ARGUMENT"),
        (429, "rate_limit_error", "RESOURCE_EXHAUSTED"),
        (502, "api_error", "UNAVAILABLE"),
        (418, "x", "INVALID_ARGUMENT"),
        (599, "x", "INTERNAL"),
        (400, "FAILED_PRECONDITION", "FAILED_PRECONDITION"),
    ],
)
def test_words_for_statuses(status, kind, word):
    body = json.loads(GEMINI.error_body(Refusal(status, "x", kind=kind), "r"))
    assert (body["error"]["code"], body["error"]["status"]) == (status, word)


def test_in_a_stream():
    refusal = Refusal(503, "x")
    assert GEMINI.error_event(refusal, "r") == b"data: " + GEMINI.error_body(refusal, "r") + b"\n\n"
    array = b'[{"candidates":[]}' + GEMINI_ARRAY.error_event(refusal, "r")
    assert json.loads(array)[1] == json.loads(GEMINI.error_body(refusal, "r"))


def googles(code, status, message="m", reason=None):
    error = {"code": code, "message": message, "status": status}
    if reason:
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
        }
        error["details"] = [info]
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (googles(429, "RESOURCE_EXHAUSTED"), 429, (429, "RESOURCE_EXHAUSTED", "")),
        (googles(400, "INVALID_ARGUMENT"), 400, (400, "INVALID_ARGUMENT", "")),
        (
            googles(400, "INVALID_ARGUMENT", "API key not valid.", "API_KEY_INVALID"),
            400,
            (401, "INVALID_ARGUMENT", "API_KEY_INVALID"),
        ),
        (
            googles(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            400,
            (403, "FAILED_PRECONDITION", ""),
        ),
        (
            b"[" + googles(403, "PERMISSION_DENIED", reason="SERVICE_DISABLED") + b"]",
            403,
            (403, "PERMISSION_DENIED", "SERVICE_DISABLED"),
        ),
        (b"<html><title>502 Bad Gateway</title>", 502, (502, "html", "")),
        (b'{"error":{"message":"m","type":"t","code":"c"}}', 400, (400, "t", "c")),
        (b"", 500, (500, "empty", "")),
    ],
)
def test_what_an_upstreams_error_means(body, status, expected):
    found = GEMINI.parse_error(body, status)
    assert (found.status, found.kind, found.code) == expected
