"""How an upstream names its answer: read once, from the first event that has a choice, or from the whole."""

import orjson
import pytest

from relay.core.dialects.openai_chat import OPENAI_CHAT
from relay.core.dialects.openai_completions import OPENAI_COMPLETIONS
from relay.core.dialects.openai_responses import OPENAI_RESPONSES
from relay.core.sse import EventStreamParser

ASKS = {
    OPENAI_CHAT: b'{"model":"m","stream":true,"messages":[{}]}',
    OPENAI_COMPLETIONS: b'{"model":"m","stream":true,"prompt":"p"}',
    OPENAI_RESPONSES: b'{"model":"m","stream":true,"input":"p"}',
}
ROLE = {"id": "gen-1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}


def chunk(**members) -> dict:
    return {**ROLE, "choices": [{"index": 0, "delta": {"content": "x"}}], **members}


def answer_id(dialect, *events: dict, plain: bool = False) -> str:
    inspector = dialect.stream_inspector(dialect.parse_request(ASKS[dialect]))
    parser = EventStreamParser(keep_comments=True)
    for event in events:
        data = b"data: " + orjson.dumps(event) + b"\n\n"
        passed = inspector.observe_plain(data)[1] if plain else 0
        for one in parser.feed(data[passed:]):
            inspector.observe(one, 0)
    return inspector.facts.answer_id


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([ROLE, chunk(), chunk(id="gen-2")], "gen-1"),
        ([chunk(), chunk(id="gen-2")], "gen-1"),
        ([{"id": "", "choices": [], "prompt_filter_results": []}, ROLE], "gen-1"),
        ([{"model": "m", "choices": ROLE["choices"]}, chunk()], ""),
        ([chunk(id=None)], ""),
        ([chunk(id=7)], ""),
        ([chunk(id=["gen-1"]), chunk()], ""),
    ],
)
def test_of_a_chat_stream(plain, events, expected):
    assert answer_id(OPENAI_CHAT, *events, plain=plain) == expected


def test_text_alone_is_never_searched_for_it():
    """The way of the most common read is as short as it was: the name stands in the first event."""
    inspector = OPENAI_CHAT.stream_inspector(OPENAI_CHAT.parse_request(ASKS[OPENAI_CHAT]))
    [first] = EventStreamParser().feed(b"data: " + orjson.dumps({"choices": ROLE["choices"]}) + b"\n\n")
    inspector.observe(first, 0)
    data = b"data: " + orjson.dumps(chunk(id="gen-9")) + b"\n\n"
    assert inspector.observe_plain(data) == (1, len(data))
    assert inspector.facts.answer_id == ""


def test_of_a_completions_stream():
    assert answer_id(OPENAI_COMPLETIONS, {"id": "gen-3", "choices": [{"index": 0, "text": "a"}]}) == "gen-3"


def test_of_a_responses_stream():
    created = {"type": "response.created", "response": {"id": "gen-4", "status": "in_progress"}}
    delta = {"type": "response.output_text.delta", "delta": "x", "item_id": "msg_1"}
    assert answer_id(OPENAI_RESPONSES, created, delta) == "gen-4"
    assert answer_id(OPENAI_RESPONSES, delta) == ""
    odd = {"type": "response.created", "response": {"id": 4, "status": "in_progress"}}
    assert answer_id(OPENAI_RESPONSES, odd, delta) == ""


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (OPENAI_CHAT, {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}),
        (OPENAI_COMPLETIONS, {"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}]}),
        (OPENAI_RESPONSES, {"object": "response", "status": "completed", "output": []}),
    ],
)
def test_of_a_whole_answer(dialect, answer):
    def told(**members) -> str:
        return dialect.inspect_whole(orjson.dumps({**answer, **members})).answer_id

    assert told(id="gen-5") == "gen-5"
    assert told() == told(id=None) == told(id=5) == ""
