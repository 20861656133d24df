"""Refusals by status, and errors inside a 200."""

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, chat, hear, hear_chat


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("status-500", (500, "server_error", None)),
        ("status-503", (503, "server_error", None)),
        ("status-400", (400, "invalid_request_error", None)),
        ("status-408", (408, "invalid_request_error", None)),
        ("429-retry-after-7", (429, "rate_limit_error", "rate_limit_exceeded")),
        ("quota-exhausted", (429, "insufficient_quota", "insufficient_quota")),
        ("refuse-keys", (401, "invalid_request_error", "invalid_api_key")),
        ("model-not-found", (404, "invalid_request_error", "model_not_found")),
        ("context-length", (400, "invalid_request_error", "context_length_exceeded")),
        ("image-blocked", (400, "image_generation_user_error", "moderation_blocked")),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_refusal_has_openais_shape(simulator: Simulator, model, expected, stream):
    heard = await hear_chat(simulator, model, stream=stream)
    assert heard.headers["content-type"] == "application/json"
    assert set(heard.json["error"]) == {"message", "type", "param", "code"}
    assert (heard.status, heard.json["error"]["type"], heard.json["error"]["code"]) == expected
    assert ("retry-after" in heard.headers) == (model == "429-retry-after-7")


@pytest.mark.parametrize("code", [204, 304])
async def test_status_without_body(simulator: Simulator, code: int):
    heard = await hear_chat(simulator, f"status-{code}")
    assert (heard.status, heard.body, heard.error) == (code, b"", None)


async def test_retry_after_says_the_number(simulator: Simulator):
    assert (await hear_chat(simulator, "429-retry-after-7")).headers["retry-after"] == "7"


async def test_overloaded_in_anthropics_shape(simulator: Simulator):
    heard = await hear(simulator, "/v1/messages", chat("status-529", max_tokens=9))
    assert (heard.status, heard.json["type"]) == (529, "error")
    assert heard.json["error"]["type"] == "overloaded_error"


async def test_flaky_fails_so_many_times_and_then_answers(simulator: Simulator):
    heard = [await hear_chat(simulator, "flaky-2") for _ in range(4)]
    assert [h.status for h in heard] == [503, 503, 200, 200]
    assert heard[-1].text == QUESTION


async def test_flaky_counts_labels_apart_and_forgets_on_reset(simulator: Simulator):
    await hear_chat(simulator, "flaky-1@a")
    assert (await hear_chat(simulator, "flaky-1@b")).status == 503
    assert (await hear_chat(simulator, "flaky-1@a")).status == 200
    simulator.reset()
    assert (await hear_chat(simulator, "flaky-1@a")).status == 503


async def test_redirect_points_to_a_path_of_the_simulator(simulator: Simulator):
    heard = await hear_chat(simulator, "redirect-302")
    assert (heard.status, heard.headers["location"]) == (302, "/v1/redirected")
    assert [received.path for received in simulator.requests] == ["/v1/chat/completions"]


@pytest.mark.parametrize("stream", [True, False])
async def test_error_in_200_is_json_either_way(simulator: Simulator, stream: bool):
    heard = await hear_chat(simulator, "error-in-200", stream=stream)
    assert (heard.status, heard.headers["content-type"]) == (200, "application/json")
    assert heard.json["error"]["code"] == "overloaded"


@pytest.mark.parametrize(
    ("model", "before"), [("error-first-event", 0), ("error-after-preamble", 1), ("error-mid", 4)]
)
async def test_error_event_comes_after_so_many_events_and_ends_the_stream(
    simulator: Simulator, model, before
):
    heard = await hear_chat(simulator, model)
    assert (heard.status, heard.error, heard.is_done, heard.finishes) == (200, None, False, [])
    *good, bad = heard.chunks
    assert len(good) == before
    assert bad["error"]["code"] == "overloaded"


@pytest.mark.parametrize("model", ["error-first-event", "error-after-preamble", "error-mid"])
async def test_whole_answer_of_a_stream_error_is_an_error_in_a_200(simulator: Simulator, model: str):
    heard = await hear_chat(simulator, model, stream=False)
    assert (heard.status, heard.json["error"]["code"]) == (200, "overloaded")


async def test_error_mid_for_anthropic_is_an_error_event(simulator: Simulator):
    heard = await hear(simulator, "/v1/messages", chat("error-mid", max_tokens=9))
    name, data = heard.events[-1]
    assert name == "error"
    assert '"overloaded_error"' in data
    assert [event for event, _ in heard.events].count("content_block_delta") == 3


async def test_error_mid_for_responses_keeps_the_numbering(simulator: Simulator):
    heard = await hear(simulator, "/v1/responses", {"model": "error-mid", "input": QUESTION, "stream": True})
    assert heard.events[-1][0] == "error"
    assert [chunk["sequence_number"] for chunk in heard.chunks] == list(range(len(heard.chunks)))


async def test_error_mid_for_gemini_is_a_status_object(simulator: Simulator):
    path = "/v1beta/models/error-mid:streamGenerateContent?alt=sse"
    heard = await hear(simulator, path, {"contents": [{"parts": [{"text": QUESTION}]}]})
    assert heard.chunks[-1]["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize("stream", [True, False])
async def test_html_200(simulator: Simulator, stream: bool):
    heard = await hear_chat(simulator, "html-200", stream=stream)
    assert heard.status == 200
    assert heard.headers["content-type"].startswith("text/html")
    assert heard.body.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("form", "expected"),
    [("detail", (None, "detail")), ("object", (None, "object")), ("event", ("error", "message"))],
)
@pytest.mark.parametrize(("suffix", "before"), [("", 0), ("-mid", 4)])
async def test_vendors_error_shapes(simulator: Simulator, form, expected, suffix, before):
    event, key = expected
    heard = await hear_chat(simulator, f"vendor-error-{form}{suffix}")
    assert heard.events[-1][0] == event
    assert key in heard.chunks[-1]
    assert "choices" not in heard.chunks[-1]
    assert (len(heard.chunks) - 1, heard.is_done) == (before, False)
