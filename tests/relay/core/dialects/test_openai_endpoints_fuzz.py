"""Whatever an upstream or a client sends to OpenAI's other endpoints: no exception but those that are told."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.dialects import DIALECTS
from relay.core.dialects.base import AggregationFailed, EventKind, ReadsForms
from relay.core.errors import Refusal
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.responses_samples import (
    CALL,
    MESSAGE,
    PICTURE,
    TEXT_STREAM,
    events_of,
    response,
)

NAMES = (
    "openai_responses", "openai_responses_actions", "openai_responses_input_tokens", "openai_completions",
    "openai_vectors", "openai_images", "openai_speech", "openai_transcriptions",
)  # fmt: skip
KINDS = [
    "response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta",
    "response.function_call_arguments.delta", "response.completed", "response.incomplete", "response.failed", "error",
    "image_generation.completed", "transcript.text.done", "speech.audio.done", "novel", "", None, 7,
]  # fmt: skip
MEMBERS = [
    "type", "response", "item", "output", "output_index", "delta", "usage", "error", "status", "model", "arguments",
    "name", "call_id", "result", "content", "incomplete_details", "input_tokens", "total_tokens", "seconds", "data",
    "text", "duration", "choices", "finish_reason", "logprobs", "index", "object", "meta",
]  # fmt: skip
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(KINDS)
)
known = st.sampled_from([MESSAGE, CALL, PICTURE, response(MESSAGE, CALL)])
values = st.recursive(
    leaves | known,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=12,
)
payloads = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(MEMBERS), values, max_size=5),
)
frames = st.builds(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n", payloads | values)
streams = st.lists(frames | st.sampled_from(TEXT_STREAM) | st.binary(max_size=40), max_size=8).map(b"".join)

ASKED = b'{"model":"m","input":"hi","prompt":"hi","stream":true}'


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=150)
@given(data=streams)
def test_streams(name, data):
    dialect = DIALECTS[name]
    ask = dialect.parse_request(ASKED)
    inspector = dialect.stream_inspector(ask)
    aggregator = dialect.aggregator(ask)
    for event in events_of(data):
        kind, out = inspector.observe(event, 0)
        assert isinstance(kind, EventKind)
        assert isinstance(out, bytes)
        if kind in (EventKind.CONTENT, EventKind.PREAMBLE):
            aggregator.add(event)
    assert isinstance(inspector.closing(), bytes)
    assert inspector.observe_plain(data)[1] in (0, len(data))
    _assert_sane(inspector.facts.usage)
    with contextlib.suppress(AggregationFailed):
        json.loads(aggregator.whole())


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=150)
@given(value=values | st.binary(max_size=40))
def test_whole_answers(name, value):
    dialect = DIALECTS[name]
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        answer = dialect.inspect_whole(body)
    except ValueError:
        return
    _assert_sane(answer.usage)
    if answer.error is None and name in ("openai_responses", "openai_completions"):
        list(dialect.whole_to_events(body, dialect.parse_request(ASKED)))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=150)
@given(
    body=st.dictionaries(
        st.sampled_from(["model", "input", "prompt", "stream", "n", "tools", "background"]), values
    ).map(lambda v: json.dumps(v).encode())
    | st.binary(max_size=60)
)
def test_requests(name, body):
    dialect = DIALECTS[name]
    ask = _or_refusal(dialect.parse_request, body)
    if isinstance(ask, Refusal):
        assert ask.status == 400
        return
    dialect.build_request(ask, model="x", stream=True, request_usage=True, overrides={})


@settings(deadline=None, max_examples=300)
@given(
    data=st.lists(
        st.sampled_from(
            [
                b"--b",
                b"\r\n",
                b"--",
                b"Content-Disposition: form-data; ",
                b'name="model"',
                b"name=n",
                b'; filename="f"',
                b"\r\n\r\n",
                b"\xff",
                b"m",
                b";",
                b":",
            ]
        ),
        max_size=25,
    ).map(b"".join)
)
def test_forms(data):
    for name in ("openai_images", "openai_transcriptions"):
        dialect = DIALECTS[name]
        assert isinstance(dialect, ReadsForms)
        ask = _or_refusal(dialect.parse_form, data, "multipart/form-data; boundary=b")
        if isinstance(ask, Refusal):
            assert ask.status == 400
            continue
        sent = dialect.build_request(ask, model="other", stream=False, request_usage=False, overrides={})
        assert dialect.parse_form(sent, "multipart/form-data; boundary=b").model == (
            "other" if ask.model else ""
        )


def _or_refusal(parse, *args):
    try:
        return parse(*args)
    except Refusal as refusal:
        return refusal


def _assert_sane(usage: TokenUsage | None) -> None:
    if usage is not None:
        counts = [getattr(usage, name) for name in TokenUsage.__struct_fields__]
        assert all(count is None or 0 <= count <= 10_000_000_000 for count in counts)
