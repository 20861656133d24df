"""A body that was not streamed: usage, finish reasons, model, an error inside a 200."""

import json

import pytest

from relay.core.dialects import OPENAI_CHAT
from relay.core.errors import Refusal
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import USAGE


def inspect(body: object):
    return OPENAI_CHAT.inspect_whole(body if isinstance(body, bytes) else json.dumps(body).encode())


def test_what_a_whole_answer_says():
    answer = inspect(
        {
            "model": "m",
            "choices": [{"finish_reason": "stop"}, {"finish_reason": None}, {"finish_reason": "length"}],
            "usage": USAGE,
        }
    )
    assert (answer.model, answer.finish_reasons, answer.error) == ("m", ("stop", "length"), None)
    assert answer.usage == TokenUsage(input=7, output=3)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'"x"', b"<html>", b'{"a":', b"data: {}\n\n", b'{"a":' + b"[" * 100_000]
)
def test_what_is_not_a_json_object_is_a_value_error(body):
    with pytest.raises(ValueError):
        inspect(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "boom", "type": "server_error"}}, "boom"),
        ({"error": "boom"}, "boom"),
        ({"choices": [], "error": {"message": "boom"}}, "boom"),
        ({"detail": "boom"}, "boom"),
        ({"object": "error", "message": "boom", "code": 40001}, "boom"),
        ({"code": "InvalidParameter", "message": "boom", "request_id": "r"}, "boom"),
        ({"base_resp": {"status_code": 1004, "status_msg": "boom"}, "choices": None}, "boom"),
    ],
)
def test_an_error_inside_a_200_is_found(body, message):
    assert inspect(body).error.message == message


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "x"}}], "error": None},
        {"choices": [{}], "base_resp": {"status_code": 0, "status_msg": ""}},
        {"choices": [{}], "message": "ok", "code": 200},
    ],
)
def test_what_is_no_error_is_none(body):
    assert inspect(body).error is None


@pytest.mark.parametrize("choices", [[1], [{"finish_reason": 7}]])
def test_odd_members_are_not_reported(choices):
    answer = inspect({"choices": choices, "model": 7, "usage": "none"})
    assert (answer.model, answer.finish_reasons, answer.usage) == ("", (), None)


def test_errors_have_openais_shape_and_our_request_id():
    refusal = Refusal(
        400, "No \u2028 such\nmodel.", kind="invalid_request_error", code="model_not_found", param="model"
    )
    body = json.loads(OPENAI_CHAT.error_body(refusal, "req-1"))
    assert body == {
        "error": {
            "message": "No \u2028 such\nmodel.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
            "request_id": "req-1",
        }
    }
    event = OPENAI_CHAT.error_event(refusal, "req-1")
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:]) == body


def test_an_error_text_with_half_a_surrogate_pair_is_told_all_the_same():
    body = json.loads(OPENAI_CHAT.error_body(Refusal(502, "bad \ud83d"), "r"))
    assert body["error"]["message"] == "bad ?"


@pytest.mark.parametrize(
    ("call", "is_broken"),
    [
        ({"function": {"name": "f", "arguments": '{"a":1}'}}, False),
        ({"function": {"name": "f", "arguments": ""}}, False),
        ({"function": {"name": "f", "arguments": '{"a":'}}, True),
        ({"function": {"name": "", "arguments": "{}"}}, True),
        ({"function": {"arguments": "{}"}}, True),
        ({"custom": {"name": "f", "input": "free text"}}, False),
        ({"function": {"name": "f", "arguments": {"a": 1}}}, False),  # Ollama's own shape
    ],
)
def test_a_broken_tool_call_of_a_whole_answer_is_a_soft_error(call, is_broken):
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", **call}]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    assert inspect(body).soft_errors == (("tool_call_invalid",) if is_broken else ())
