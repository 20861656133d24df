"""Requests to the Responses API: what is read, what is refused, and what changes on the way."""

import json

import pytest

from relay.core.dialects import OPENAI_RESPONSES
from relay.core.dialects.openai_responses.actions import RESPONSES_ACTIONS, RESPONSES_INPUT_TOKENS
from relay.core.errors import Refusal


def parsed(**fields: object):
    return OPENAI_RESPONSES.parse_request(json.dumps({"model": "gpt-5", **fields}).encode())


def built(ask, *, model="gpt-5", stream=None, overrides=None) -> bytes:
    return OPENAI_RESPONSES.build_request(
        ask,
        model=model,
        stream=ask.stream if stream is None else stream,
        request_usage=True,
        overrides=overrides or {},
    )


@pytest.mark.parametrize(
    ("given", "count"),
    [("hi", 1), ("", 1), ([], 0), ([{"role": "user", "content": "hi"}] * 3, 3), (None, 0)],
)
def test_what_is_read(given, count):
    ask = parsed(input=given, stream=True, tools=[{"type": "web_search"}], store=True, background=False)
    assert (ask.model, ask.stream, ask.message_count, ask.tool_count) == ("gpt-5", True, count, 1)
    assert ask.has_streamed_form
    assert not ask.is_raw


def test_an_input_may_be_left_out():
    """A stored prompt brings its own."""
    assert parsed(prompt={"id": "pmpt_1"}).message_count == 0


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": ""}, "model", "missing_required_parameter"),
        ({"model": 7}, "model", "invalid_type"),
        ({"model": "m" * 257}, "model", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"background": "yes"}, "background", "invalid_type"),
        ({"input": 7}, "input", "invalid_type"),
        ({"input": {"role": "user"}}, "input", "invalid_type"),
        ({"input": ["hi"]}, "input", "invalid_type"),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"),
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"conversation": {"id": "conv_1"}}, "conversation", "unsupported_parameter"),
        (
            {"input": [{"role": "user"}, {"type": "item_reference", "id": "msg_1"}]},
            "input[1]",
            "unsupported_parameter",
        ),
        ({"input": [{"id": "msg_1"}]}, "input[0]", "unsupported_parameter"),
        ({"input": [{"type": None, "id": "msg_1"}]}, "input[0]", "unsupported_parameter"),
        ({"input": [{"type": "", "role": None, "id": "msg_1"}]}, "input[0]", "unsupported_parameter"),
        ({"input": [{"role": "user", "id": "msg_1"}]}, "input[0]", "unsupported_parameter"),
        (
            {"tools": [{"type": "web_search"}, {"type": "code_interpreter", "container": "cntr_1"}]},
            "tools[1].container",
            "unsupported_parameter",
        ),
        (
            {"tools": [{"type": "shell", "environment": {"container_id": "cntr_1"}}]},
            "tools[0].environment.container_id",
            "unsupported_parameter",
        ),
    ],
)
def test_what_is_refused_names_its_field(fields, param, code):
    with pytest.raises(Refusal) as refused:
        parsed(**fields)
    assert (refused.value.status, refused.value.param, refused.value.code) == (400, param, code)


def test_a_reference_cannot_hide_behind_an_escape():
    body = b'{"model":"m","input":[{"type":"item\\u005freference","id":"msg_of_another"}]}'
    with pytest.raises(Refusal, match="whose it is"):
        OPENAI_RESPONSES.parse_request(body)


def test_talking_about_references_is_no_reference():
    assert parsed(input=[{"role": "user", "content": "what is an item_reference?"}]).message_count == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": None, "conversation": None, "background": None},
        {"store": True},
        {"input": [{"role": "user", "content": "hi", "id": "msg_1"}]},
        {"input": [{"type": "function_call_output", "call_id": "call_1", "output": "7", "id": "fco_1"}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}]},
        {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
    ],
)
def test_what_names_nothing_passes(fields):
    sent = json.loads(built(parsed(**{"input": "hi", **fields})))
    assert sent == {"model": "gpt-5", "input": "hi", **fields}


def test_values_keep_their_bytes():
    body = b'{"model":"gpt-5","input":[{"role":"user","content":"gr\xc3\xb6\xc3\x9fe \\u00e4"}],"temperature":1.0,"x":{"b":1,"a":[ 1 ]},"stream":true}'
    ask = OPENAI_RESPONSES.parse_request(body)
    assert built(ask) == body
    assert built(ask, model="other") == body.replace(b'"gpt-5"', b'"other"')
    assert built(ask, overrides={"x": 1}) == body.replace(b'{"b":1,"a":[ 1 ]}', b"1")


def test_a_policy_turns_the_stream_off_and_on():
    ask = parsed(input="hi", stream=True, stream_options={"include_obfuscation": False})
    assert json.loads(built(ask, stream=False)) == {"model": "gpt-5", "input": "hi", "stream": False}
    assert json.loads(built(parsed(input="hi"), stream=True))["stream"] is True


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"model":NaN}', b'{"model":"m","input":' + b"[" * 10_000]
)
def test_broken_json(body):
    with pytest.raises(Refusal) as refused:
        OPENAI_RESPONSES.parse_request(body)
    assert refused.value.status == 400


ACTIONS = [RESPONSES_ACTIONS, RESPONSES_INPUT_TOKENS]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_of_another"}, "previous_response_id"),
        ({"input": [{"id": "msg_of_another"}]}, "input[0]"),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_of_another"}]}, "tools[0].container"),
        ({"input": ["hi"]}, "input"),
    ],
)
def test_what_is_done_with_a_responses_fields_is_held_to_the_same(action, fields, param):
    with pytest.raises(Refusal) as refused:
        action.parse_request(json.dumps({"model": "m", **fields}).encode())
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_names_a_thing_once(action):
    """An upstream might obey the first of two, of which the last was looked at."""
    ask = action.parse_request(b'{"previous_response_id":"resp_of_another","previous_response_id":null}')
    sent = action.build_request(ask, model="", stream=False, request_usage=True, overrides={})
    assert sent == b'{"previous_response_id":null}'


def test_counting_is_neither_streamed_nor_paid():
    body = b'{"model":"m","input":"hi","stream":true}'
    count, compaction = RESPONSES_INPUT_TOKENS.parse_request(body), RESPONSES_ACTIONS.parse_request(body)
    assert (count.is_charged, count.stream, count.has_streamed_form, count.is_raw) == (False,) * 4
    assert (compaction.is_charged, compaction.is_raw) == (True, True)


def test_a_count_is_no_usage():
    answer = RESPONSES_INPUT_TOKENS.inspect_whole(b'{"object":"response.input_tokens","input_tokens":11}')
    assert (answer.usage.input, answer.usage.output, answer.error) == (0, 0, None)


def test_a_count_that_failed():
    body = b'{"error":{"message":"Overloaded","type":"server_error"},"input_tokens":null}'
    assert RESPONSES_INPUT_TOKENS.inspect_whole(body).error.message == "Overloaded"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"input_tokens":"5"}', b'{"input_tokens":-1}'])
def test_what_is_no_count(body):
    with pytest.raises(ValueError, match="no count"):
        RESPONSES_INPUT_TOKENS.inspect_whole(body)
