"""Pass-through: what is read, and that everything else goes on byte for byte. And the registry."""

import json

import pytest

from relay.core.dialects import DIALECTS, OPAQUE, OPENAI_CHAT
from relay.core.dialects.base import AggregationFailed, EventKind
from relay.core.dialects.openai_json import IMAGES, SPEECH, TRANSCRIPTIONS, VECTORS
from relay.core.errors import Refusal
from relay.core.usage import TokenUsage
from tests.relay.core.dialects.openai_chat_samples import events_of


def build(body: bytes, *, model: str | None = None, overrides=None, stream=True) -> bytes:
    ask = OPAQUE.parse_request(body)
    return OPAQUE.build_request(
        ask,
        model=ask.model if model is None else model,
        stream=stream,
        request_usage=True,
        overrides=overrides or {},
    )


MULTIPART = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--x--\r\n'


def test_the_registry_knows_each_dialect_by_its_name():
    assert {DIALECTS[name].name for name in DIALECTS} == set(DIALECTS)
    assert DIALECTS["openai_chat"] is OPENAI_CHAT
    assert DIALECTS["opaque"] is OPAQUE


@pytest.mark.parametrize(
    ("body", "model", "stream"),
    [
        (b'{"model":"tts-1","stream":true}', "tts-1", True),
        (b' \n{"model":"m"}', "m", False),
        (b'{"model":7,"stream":"yes"}', "", False),
        (b'{"input":{"model":"inner"}}', "", False),
        (b'{"model":"%s"}' % (b"m" * 257), "", False),
        (b"{}", "", False),
        (b'["model"]', "", False),
        (b"", "", False),
        (b"\x00\xff\xfebinary", "", False),
        (MULTIPART, "", False),
    ],
)
def test_model_and_stream_are_read_where_the_body_is_an_object(body, model, stream):
    ask = OPAQUE.parse_request(body)
    assert (ask.model, ask.stream) == (model, stream)
    assert build(body) == body


@pytest.mark.parametrize(
    "body", [b"{", b'{"model":NaN}', b'\xef\xbb\xbf{"model":"m"}', b'{"a":' + b"[" * 10_000]
)
def test_broken_json_is_refused(body):
    """An upstream with a kinder parser could be asked for a model that the caller may not use."""
    with pytest.raises(Refusal) as refused:
        OPAQUE.parse_request(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"cheap", "model":"dear"}',
        b'{"model":"cheap","mod\\u0065l":"dear"}',
        b'{"mod\\u0065l":"x","model":"dear"}',
    ],
)
def test_a_repeated_model_reaches_the_upstream_once(body):
    ask = OPAQUE.parse_request(body)
    assert ask.model == "dear"
    assert json.loads(build(body)) == {"model": "dear"}
    assert b"cheap" not in build(body)


TWICE = [
    (VECTORS, b'{"model":"m", "input":"a", "input":"b"}', b'{"model":"m","input":"b"}'),
    (IMAGES, b'{"n":1,"size":"1x1","size":"9x9"}', b'{"n":1,"size":"9x9"}'),
    (IMAGES, b'{"quality":"low", "quality":"high"}', b'{"quality":"high"}'),
    (SPEECH, b'{"model":"m","input":"a","input":"bc"}', b'{"model":"m","input":"bc"}'),
    (
        SPEECH,
        b'{"model":"m","stream\\u005fformat":"sse","stream_format":"audio"}',
        b'{"model":"m","stream_format":"audio"}',
    ),
    (
        TRANSCRIPTIONS,
        b'{"model":"m","response_format":"text","response_format":"json"}',
        b'{"model":"m","response_format":"json"}',
    ),
    (OPAQUE, b'{"max_tokens":9000,"max_tokens":1}', b'{"max_tokens":1}'),
]


@pytest.mark.parametrize(("dialect", "body", "sent"), TWICE)
def test_what_price_and_timers_hang_on_reaches_the_upstream_once(dialect, body, sent):
    ask = dialect.parse_request(body)
    built = dialect.build_request(ask, model=ask.model, stream=ask.stream, request_usage=False, overrides={})
    assert built == sent


def test_only_what_mapping_and_overrides_need_is_edited():
    body = b'{"x": 1.50,"model":"alias","input":"\\u00e9"}'
    assert build(body, model="real") == b'{"x":1.50,"model":"real","input":"\\u00e9"}'
    assert build(body, overrides={"x": 2}) == b'{"x":2,"model":"alias","input":"\\u00e9"}'
    assert build(MULTIPART, model="real", overrides={"x": 2}) == MULTIPART


def test_a_body_without_a_model_gets_none():
    assert build(b'{"a": 1}', model="real") == b'{"a": 1}'


def test_every_event_passes_as_it_came_and_the_first_with_data_is_content():
    frames = [
        b": hello\n\n",
        b"id: 1\nevent: response.created\ndata: {}\n\n",
        b"data: not json\r\n\r\n",
        b'data: {"error":{"message":"x"}}\n\n',
        b"retry: 5\n\n",
        b"data: [DONE]\n\n",
    ]
    inspector = OPAQUE.stream_inspector(OPAQUE.parse_request(b"{}"))
    results = [inspector.observe(event, 0) for event in events_of(*frames)]
    assert [out for _, out in results] == frames
    assert [kind for kind, _ in results] == [
        EventKind.COMMENT,
        EventKind.CONTENT,
        EventKind.CONTENT,
        EventKind.CONTENT,
        EventKind.COMMENT,
        EventKind.TERMINAL,
    ]
    assert inspector.closing() == b""


def test_no_terminal_is_required_and_nothing_counts_as_finished_early():
    inspector = OPAQUE.stream_inspector(OPAQUE.parse_request(b"{}"))
    inspector.observe(events_of("x")[0], 0)
    facts = inspector.facts
    assert (facts.terminal_required, facts.terminal_seen, facts.every_choice_finished) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("body", "model", "usage"),
    [
        (b'{"model":"e","usage":{"prompt_tokens":5,"total_tokens":5}}', "e", TokenUsage(input=5)),
        (
            b'{"usage":{"input_tokens":5,"output_tokens":6,"input_tokens_details":{"cached_tokens":2}}}',
            "",
            TokenUsage(input=5, cached_input=2, output=6),
        ),
        (b'{"usage":', "", None),
        (b"\x89PNG", "", None),
        (b"", "", None),
        (b"[1]", "", None),
        (b'{"a":' + b"[" * 100_000, "", None),
    ],
)
def test_any_whole_answer_is_accepted(body, model, usage):
    answer = OPAQUE.inspect_whole(body)
    assert (answer.model, answer.usage, answer.error) == (model, usage, None)


def test_stream_policies_do_not_apply():
    ask = OPAQUE.parse_request(b"{}")
    aggregator = OPAQUE.aggregator(ask)
    aggregator.add(events_of("x")[0])
    with pytest.raises(AggregationFailed):
        aggregator.whole()
    with pytest.raises(ValueError, match="no events"):
        OPAQUE.whole_to_events(b"{}", ask)


def test_our_own_errors_have_openais_shape():
    refusal = Refusal(404, "Not found.", code="not_found")
    assert OPAQUE.error_body(refusal, "r") == OPENAI_CHAT.error_body(refusal, "r")
    assert OPAQUE.error_event(refusal, "r") == OPENAI_CHAT.error_event(refusal, "r")
