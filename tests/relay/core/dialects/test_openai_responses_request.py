"""Requests to the Responses API: what is read, what is refused, and what changes on the way."""

import json

import pytest

from relay.core.dialects import OPENAI_RESPONSES
from relay.core.dialects.openai_responses.actions import RESPONSES_ACTIONS
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
    "fields", [{"previous_response_id": None, "conversation": None, "background": None}, {"store": True}]
)
def test_what_names_nothing_passes(fields):
    sent = json.loads(built(parsed(input="hi", **fields)))
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


def test_what_is_done_with_a_responses_fields_is_held_to_the_same():
    body = b'{"model": "m", "input": "hi"}'
    ask = RESPONSES_ACTIONS.parse_request(body)
    assert (
        RESPONSES_ACTIONS.build_request(ask, model="m", stream=False, request_usage=True, overrides={})
        == body
    )
    with pytest.raises(Refusal, match="previous_response_id"):
        RESPONSES_ACTIONS.parse_request(b'{"model":"m","previous_response_id":"resp_of_another"}')
