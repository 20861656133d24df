"""Messages requests read and written, and errors told, in Anthropic's shape."""

import json
import time

import msgspec
import pytest

from relay.core.dialects.anthropic import ANTHROPIC, ANTHROPIC_COUNT_TOKENS
from relay.core.errors import Refusal
from relay.core.limits_asked import output_limit
from relay.core.sse import EventStreamParser

BODY = (
    b'{"model": "claude", "max_tokens": 99, "stream": true, "temperature": 1.0, "new": [1.50, 1E2],'
    b' "system": "Be \xc3\xa4", "tools": [{"name": "t"}], "messages": [{"role": "user", "content": "hi"}, {}]}'
)


def refused(body: bytes) -> Refusal:
    with pytest.raises(Refusal) as raised:
        ANTHROPIC.parse_request(body)
    assert raised.value.status == 400
    return raised.value


def built(ask, **changes) -> bytes:
    options = {"model": ask.model, "stream": ask.stream, "request_usage": True, "overrides": {}}
    return ANTHROPIC.build_request(ask, **{**options, **changes})


def test_what_is_read():
    ask = ANTHROPIC.parse_request(BODY)
    assert (ask.model, ask.stream, ask.message_count, ask.tool_count) == ("claude", True, 2, 1)
    assert ask.has_streamed_form
    assert output_limit(ask.fields) == 99


def test_values_keep_the_clients_bytes():
    ask = ANTHROPIC.parse_request(BODY)
    assert b'"new":[1.50, 1E2],"system":"Be \xc3\xa4"' in built(ask)
    assert json.loads(built(ask)) == json.loads(BODY)


def test_only_model_stream_and_overrides_change():
    ask = ANTHROPIC.parse_request(BODY)
    changed = json.loads(built(ask, model="claude-9", stream=False, overrides={"temperature": 0, "x": 1}))
    assert changed == json.loads(BODY) | {"model": "claude-9", "stream": False, "temperature": 0, "x": 1}


def test_a_stream_that_was_not_asked_for_is_not_spoken_of():
    plain = ANTHROPIC.parse_request(b'{"model":"m","messages":[]}')
    assert json.loads(built(plain)) == {"model": "m", "messages": []}
    assert json.loads(built(plain, stream=True))["stream"] is True


def test_of_a_member_that_comes_twice_one_is_checked_and_sent():
    ask = ANTHROPIC.parse_request(b'{"model":"cheap","messages":[],"model":"dear"}')
    assert ask.model == "dear"
    assert built(ask).count(b'"model"') == 1


@pytest.mark.parametrize("dialect", [ANTHROPIC, ANTHROPIC_COUNT_TOKENS])
@pytest.mark.parametrize(
    ("container", "param"),
    [("container_of_another", "container"), ({"id": "container_of_another", "skills": []}, "container.id")],
)
def test_a_container_that_exists_is_not_named(dialect, container, param):
    """It may be another tenant's."""
    body = {"model": "m", "messages": [], "container": container}
    with pytest.raises(Refusal, match="whose it is") as refused:
        dialect.parse_request(json.dumps(body).encode())
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize("container", [None, {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}])
def test_a_container_that_is_made_anew_may_have_skills(container):
    body = {"model": "m", "messages": [], "container": container}
    assert json.loads(built(ANTHROPIC.parse_request(json.dumps(body).encode()))) == body


def test_counting_tokens_has_no_stream():
    ask = ANTHROPIC_COUNT_TOKENS.parse_request(b'{"model":"m","messages":[{}],"stream":true}')
    assert not ask.stream
    assert not ask.has_streamed_form


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"messages":[]}', "model"), (b'{"model":null,"messages":[]}', "model"),
        (b'{"model":"","messages":[]}', "model"), (b'{"model":7,"messages":[]}', "model"),
        (b'{"model":"%s","messages":[]}' % (b"m" * 300), "model"),
        (b'{"model":"m"}', "messages"), (b'{"model":"m","messages":null}', "messages"),
        (b'{"model":"m","messages":"hi"}', "messages"), (b'{"model":"m","messages":["hi"]}', "messages"),
        (b'{"model":"m","messages":{}}', "messages"), (b'{"model":"m","messages":[],"stream":"yes"}', "stream"),
        (b'{"model":"m","messages":[],"tools":{}}', "tools"), (b'{"model":"m","messages":[],"tools":[1]}', "tools"),
    ],
)  # fmt: skip
def test_a_fault_names_its_field(body, param):
    refusal = refused(body)
    assert refusal.param == param
    assert f"'{param}'" in refusal.message


@pytest.mark.parametrize(
    "body",
    [
        b"", b"x", b"[]", b'"m"', b'{"model":"m","messages":[],"n":NaN}', b'{"model":"\\ud800","messages":[]}',
        b'{"model":"\xff","messages":[]}', b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_json(body):
    assert refused(body).code == "invalid_json"


def test_a_million_messages_are_refused_in_bounded_time():
    began = time.monotonic()
    refused(b'{"model":"m","messages":[' + b"{}," * 1_000_000 + b"{}]}")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (Refusal(400, "m"), "invalid_request_error"),
        (Refusal(401, "m", kind="authentication_error"), "authentication_error"),
        (Refusal(402, "m", kind="insufficient_quota"), "billing_error"),
        (Refusal(403, "m", kind="permission_error"), "permission_error"),
        (Refusal(404, "m"), "not_found_error"),
        (Refusal(405, "m"), "invalid_request_error"),
        (Refusal(413, "m"), "request_too_large"),
        (Refusal(429, "m", kind="rate_limit_error"), "rate_limit_error"),
        (Refusal(500, "m", kind="server_error"), "api_error"),
        (Refusal(502, "m", kind="api_error"), "api_error"),
        (Refusal(503, "m", kind="api_error"), "overloaded_error"),
        (Refusal(504, "m", kind="api_error"), "timeout_error"),
        (Refusal(529, "m", kind="overloaded_error"), "overloaded_error"),
        (Refusal(502, "m", kind="overloaded_error"), "overloaded_error"),
    ],
)
def test_error_bodies(refusal, kind):
    body = json.loads(ANTHROPIC.error_body(refusal, "req-1"))
    assert body == {"type": "error", "error": {"type": kind, "message": "m"}, "request_id": "req-1"}


def test_our_own_code_goes_where_the_api_has_one():
    refusal = Refusal(404, "half \ud800 \u2028", code="model_not_found", param="model")
    error = json.loads(ANTHROPIC.error_body(refusal, "req-1"))["error"]
    assert error == {
        "type": "not_found_error", "message": "half ? \u2028", "details": {"error_code": "model_not_found"},
    }  # fmt: skip


def test_an_error_in_band():
    frame = ANTHROPIC.error_event(Refusal(503, "Over\nloaded", kind="overloaded_error"), "req-1")
    [event] = EventStreamParser().feed(frame)
    assert event.event == "error"
    assert json.loads(event.data)["error"] == {"type": "overloaded_error", "message": "Over\nloaded"}


@pytest.mark.parametrize(
    ("body", "status", "kind", "told"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', 529, "overloaded_error", 529),
        (b'{"error":{"message":"No.","type":"invalid_request_error"}}', 400, "invalid_request_error", 400),
        (b"<html><title>Bad gateway</title>", 502, "html", 502),
        (b"", 500, "empty", 500),
        (
            b'{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}',
            400, "billing_error", 402,
        ),
    ],
)  # fmt: skip
def test_errors_of_upstreams(body, status, kind, told):
    error = ANTHROPIC.parse_error(body, status)
    assert (error.kind, error.status) == (kind, told)


def whole(**members: object) -> bytes:
    message = {
        "type": "message",
        "model": "m",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
    }
    return msgspec.json.encode({**message, **members})


def test_a_whole_message():
    answer = ANTHROPIC.inspect_whole(whole(usage={"input_tokens": 5, "output_tokens": 2}))
    assert (answer.usage.input, answer.usage.output) == (5, 2)
    assert (answer.finish_reasons, answer.model, answer.error) == (("end_turn",), "m", None)


@pytest.mark.parametrize(
    ("block", "errors"),
    [
        ({"type": "tool_use", "name": "t", "input": {}}, ()),
        ({"type": "tool_use", "name": "t", "input": '{"cut'}, ("tool_call_invalid",)),
        ({"type": "tool_use", "name": "", "input": {}}, ("tool_call_invalid",)),
        ({"type": "tool_use", "name": "t"}, ("tool_call_invalid",)),
        ({"type": "text", "text": 'say "tool_use"', "input": 7}, ()),
        ({"type": "server_tool_use", "name": "t", "input": "x"}, ()),
    ],
)
def test_tool_calls_of_a_whole_message(block, errors):
    assert ANTHROPIC.inspect_whole(whole(content=[block])).soft_errors == errors


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        b'{"error":"dead"}',
        b'{"detail":"dead"}',
        b'{"type":"message","content":null,"error":{"message":"dead"}}',
        b'{"type":"message","content":[],"error":{"message":"dead"}}',
    ],
)
def test_an_error_in_a_200(body):
    assert ANTHROPIC.inspect_whole(body).error is not None
    assert ANTHROPIC_COUNT_TOKENS.inspect_whole(body).error is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"x",
        b'{"content":"x"}',
        b'{"content":[]}',
        b'{"choices":[{"message":{}}]}',
        b"[" * 9999,
    ],
)
def test_what_is_no_message(body):
    with pytest.raises(ValueError, match=r"."):
        ANTHROPIC.inspect_whole(body)


def test_a_message_may_be_empty_if_the_upstream_says_why():
    assert ANTHROPIC.inspect_whole(b'{"content":[],"stop_reason":"end_turn"}').finish_reasons == ("end_turn",)


def test_a_count_is_free():
    usage = ANTHROPIC_COUNT_TOKENS.inspect_whole(b'{"input_tokens": 2095}').usage
    assert (usage.input, usage.output) == (0, 0)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"input_tokens":"5"}', b'{"input_tokens":-1}', b'{"input_tokens":1e99}', b"x"]
)
def test_what_is_no_count(body):
    with pytest.raises(ValueError, match=r"."):
        ANTHROPIC_COUNT_TOKENS.inspect_whole(body)
