"""A read that is nothing but text is judged as a whole: with the same result as event by event, or not at all."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.dialects.openai_chat import OPENAI_CHAT
from relay.core.estimate import ReceivedText
from relay.core.sse import EventStreamParser

NOTHING_RECEIVED = ReceivedText()
HEAD = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}\n\n'
TEXT = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}\n\n'
CJK = 'data: {"choices":[{"index":0,"delta":{"content":"你好 \u2028"}}],"usage":null}\n\n'.encode()
OTHERS = {
    "finish": b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    "finish beside text": b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n',
    "empty finish": b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":""}]}\n\n',
    "usage": b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
    "usage beside text": b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}\n\n',
    "bad usage beside text": b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":"x"}\n\n',
    "tool call": b'data: {"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"id":"a"}]}}]}\n\n',
    "unknown choice": b'data: {"choices":[{"index":3,"delta":{"content":"x"}}]}\n\n',
    "two choices": b'data: {"choices":[{"index":0,"delta":{"content":"x"}},{"index":0,"delta":{"content":"y"}}]}\n\n',
    "reasoning": b'data: {"choices":[{"index":0,"delta":{"content":"x","reasoning":"y"}}]}\n\n',
    "error": b'data: {"error":{"message":"x"},"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "null choices": b'data: {"choices":null}\n\n',
    "choices no list": b'data: {"choices":{"0":1}}\n\n',
    "done": b"data: [DONE]\n\n",
    "comment": b": ping\n\n",
    "comment in the event": b': ping\ndata: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "id": b'id: 5\ndata: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "named": b'event: x\ndata: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "two data lines": b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"x"}}]}\n\n',
    "two objects in one event": b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]},{"choices":[]}\n\n',
    "two plain objects in one event": TEXT[:-2] + b"," + TEXT[6:],
    "no space": b'data:{"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "crlf": b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\r\n\r\n',
    "not json": b"data: {broken}\n\n",
    "half a surrogate": b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
    "empty data": b"data: \n\n",
    "three newlines": TEXT + b"\n",
}


def judged(*reads: bytes, plain: bool) -> tuple[bytes, object, str]:
    """What a client gets of the reads, what was learnt, and the text; with or without the short way."""
    ask = OPENAI_CHAT.parse_request(b'{"model":"m","stream":true,"messages":[{}]}')
    inspector = OPENAI_CHAT.stream_inspector(ask)
    parser = EventStreamParser(keep_comments=True)
    out = b""
    for read in reads:
        passed = inspector.observe_plain(read)[1] if plain and parser.is_between_events else 0
        out += read[:passed]
        for event in parser.feed(read[passed:]):
            out += inspector.observe(event, 0)[1]
    facts = inspector.facts
    return out, dataclasses.replace(facts, received=NOTHING_RECEIVED), facts.received.text


def test_plain_text_takes_the_short_way():
    ask = OPENAI_CHAT.parse_request(b'{"model":"m","stream":true,"messages":[{}]}')
    inspector = OPENAI_CHAT.stream_inspector(ask)
    for event in EventStreamParser().feed(HEAD):
        inspector.observe(event, 0)
    assert inspector.observe_plain(TEXT + CJK + TEXT) == (3, len(TEXT + CJK + TEXT))
    assert inspector.facts.received.text == "aHello你好 \u2028Hello"


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
@pytest.mark.parametrize("place", range(3))
def test_anything_else_in_the_read_is_looked_at_event_by_event(other, place):
    frames = [TEXT, TEXT]
    frames.insert(place, other)
    reads = [HEAD, b"".join(frames), TEXT]
    assert judged(*reads, plain=True) == judged(*reads, plain=False)


def test_a_read_without_effect_when_it_is_not_plain():
    ask = OPENAI_CHAT.parse_request(b'{"model":"m","stream":true,"messages":[{}]}')
    inspector = OPENAI_CHAT.stream_inspector(ask)
    for event in EventStreamParser().feed(HEAD):
        inspector.observe(event, 0)
    assert inspector.observe_plain(TEXT + OTHERS["finish"], in_full=True) == (0, 0)
    assert inspector.facts.received.size == 1
    assert not inspector.facts.finish_reasons


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        ("finish", (2, len(TEXT + CJK))),
        ("usage", (2, len(TEXT + CJK))),
        ("tool call", (2, len(TEXT + CJK))),
        ("comment", (0, 0)),
        ("no space", (0, 0)),
        ("three newlines", (0, 0)),
    ],
)
def test_text_before_anything_else_takes_the_short_way_alone(other, taken):
    ask = OPENAI_CHAT.parse_request(b'{"model":"m","stream":true,"messages":[{}]}')
    inspector = OPENAI_CHAT.stream_inspector(ask)
    for event in EventStreamParser().feed(HEAD):
        inspector.observe(event, 0)
    rest = OTHERS[other] + OTHERS["usage"] + OTHERS["done"]
    assert inspector.observe_plain(TEXT + CJK + rest) == taken
    assert inspector.observe_plain(TEXT + CJK + OTHERS["done"] + TEXT[:20]) == (2, len(TEXT + CJK))
    assert not inspector.facts.finish_reasons


@given(
    frames=st.lists(st.sampled_from([TEXT, TEXT, TEXT, CJK, HEAD, *OTHERS.values()]), max_size=12),
    cuts=st.lists(st.integers(0, 1500), max_size=6),
)
def test_same_bytes_and_same_facts_as_event_by_event(frames, cuts):
    stream = HEAD + b"".join(frames)
    edges = [0, *sorted({min(cut, len(stream)) for cut in cuts}), len(stream)]
    reads = [stream[start:end] for start, end in itertools.pairwise(edges) if end > start]
    assert judged(*reads, plain=True) == judged(*reads, plain=False)
