"""A chat completion request: what is refused, what is read, what the upstream gets."""

import json

import pytest

from relay.core.dialects import OPENAI_CHAT
from relay.core.errors import Refusal

MESSAGES = '"messages":[{"role":"user","content":"hi"}]'


def parse(text: str):
    """`@messages` stands for one ordinary message."""
    return OPENAI_CHAT.parse_request(text.replace("@messages", MESSAGES).encode())


def build(text: str, *, model="gpt-4o", stream=False, request_usage=True, overrides=None) -> bytes:
    return OPENAI_CHAT.build_request(
        parse(text), model=model, stream=stream, request_usage=request_usage, overrides=overrides or {}
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("{@messages}", "model"),
        ('{"model":null,@messages}', "model"),
        ('{"model":"",@messages}', "model"),
        ('{"model":7,@messages}', "model"),
        ('{"model":["gpt-4o"],@messages}', "model"),
        ('{"model":"MODEL",@messages}'.replace("MODEL", "m" * 257), "model"),
        ('{"model":"m"}', "messages"),
        ('{"model":"m","messages":null}', "messages"),
        ('{"model":"m","messages":"hi"}', "messages"),
        ('{"model":"m","messages":{}}', "messages"),
        ('{"model":"m","stream":"true",@messages}', "stream"),
        ('{"model":"m","stream":1,@messages}', "stream"),
        ('{"model":"m","stream_options":[],@messages}', "stream_options"),
        ('{"model":"m","stream_options":true,@messages}', "stream_options"),
        (
            '{"model":"m","stream":true,"stream_options":{"include_usage":"yes"},@messages}',
            "stream_options.include_usage",
        ),
        ('{"model":"m","n":0,@messages}', "n"),
        ('{"model":"m","n":-1,@messages}', "n"),
        ('{"model":"m","n":"2",@messages}', "n"),
        ('{"model":"m","n":1.5,@messages}', "n"),
        ('{"model":"m","n":true,@messages}', "n"),
        ('{"model":"m","tools":{},@messages}', "tools"),
    ],
)
def test_refusals_name_the_field(body, param):
    with pytest.raises(Refusal) as refused:
        parse(body)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert refused.value.kind == "invalid_request_error"


def test_invalid_json_is_a_400_without_a_field():
    with pytest.raises(Refusal) as refused:
        parse('{"model":"m",')
    assert (refused.value.status, refused.value.param, refused.value.code) == (400, None, "invalid_json")


def test_what_is_read():
    ask = parse(
        '{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"n":2,'
        '"messages":[{"role":"system"},{"role":"user"}],"tools":[{"type":"function"}]}'
    )
    assert (ask.model, ask.stream, ask.include_usage) == ("gpt-4o", True, True)
    assert (ask.message_count, ask.tool_count) == (2, 1)


@pytest.mark.parametrize("null", ["stream", "stream_options", "n", "tools"])
def test_null_means_absent(null):
    ask = parse('{"model":"m","' + null + '":null,@messages}')
    assert (ask.stream, ask.include_usage, ask.tool_count) == (False, False, 0)


def test_usage_is_not_asked_for_outside_a_stream():
    assert not parse('{"model":"m","stream_options":{"include_usage":true},@messages}').include_usage


def test_untouched_values_keep_their_exact_bytes():
    text = '{"temperature":0.10, "seed": 12345678901234567890,"x":{"b" : 1e2,"a":"\\u00e9"},"model":"gpt-4o",@messages}'
    body = build(text)
    for part in (b'"temperature":0.10', b'"seed":12345678901234567890', b'"x":{"b" : 1e2,"a":"\\u00e9"}'):
        assert part in body
    assert body.count(b"stream") == 0


def test_a_repeated_member_means_the_same_to_policy_and_upstream():
    """Otherwise `cheap` could be allowed and priced while the upstream answers as `dear`."""
    body = build('{"model":"cheap","mod\\u0065l":"dear",@messages}', model="dear")
    assert body.count(b'"model"') == 1
    assert b"cheap" not in body


def test_the_mapped_model_is_sent():
    sent = json.loads(build('{"model":"alias",@messages}', model="vendor/real"))
    assert sent["model"] == "vendor/real"


@pytest.mark.parametrize(
    "options", ["", '"stream_options":null,', '"stream_options":{"include_usage":false},']
)
def test_usage_is_requested_although_the_client_did_not_ask(options):
    """control-layer#701: without it nothing can be billed."""
    sent = json.loads(build('{"model":"gpt-4o","stream":true,' + options + "@messages}", stream=True))
    assert sent["stream_options"] == {"include_usage": True}


def test_stream_options_are_merged_and_not_replaced():
    text = '{"model":"gpt-4o","stream":true,"stream_options":{"include_obfuscation":false},@messages}'
    sent = json.loads(build(text, stream=True))
    assert sent["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_a_channel_that_refuses_stream_options_gets_none_of_ours():
    sent = json.loads(build('{"model":"gpt-4o","stream":true,@messages}', stream=True, request_usage=False))
    assert "stream_options" not in sent


def test_forced_stream_sets_both():
    sent = json.loads(build('{"model":"gpt-4o",@messages}', stream=True))
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


def test_forced_non_stream_removes_stream_options():
    text = '{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},@messages}'
    sent = json.loads(build(text))
    assert sent["stream"] is False
    assert "stream_options" not in sent


def test_overrides_come_last():
    sent = json.loads(
        build(
            '{"model":"a","temperature":1,@messages}',
            model="b",
            overrides={"model": "c", "temperature": 0},
        )
    )
    assert (sent["model"], sent["temperature"]) == ("c", 0)
