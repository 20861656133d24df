"""A read that is nothing but text is judged as a whole: with the same result as event by event, or not at all."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.estimate import ReceivedText
from relay.core.sse import EventStreamParser
from tests.relay.core.dialects.anthropic_samples import (
    HELLO,
    OVERLOADED,
    PING,
    STOP,
    TEXT,
    ask,
    closed,
    delta,
    ended,
    events_of,
    opened,
    part_of_input,
    said,
    started,
)

NOTHING_RECEIVED = ReceivedText()
HEAD = started() + TEXT
SAID = said("Hello")
CJK = said("你好 \u2028")
THOUGHT = delta(0, "thinking_delta", thinking="Hm")
OTHERS = {
    "end": ended(),
    "end mark": STOP,
    "ping": PING,
    "start": opened(1, type="text", text=""),
    "stop": closed(),
    "input": part_of_input("{"),
    "text and input": delta(0, "text_delta", text="x", partial_json="{"),
    "signature": delta(0, "signature_delta", signature="x"),
    "empty text": said(""),
    "error": OVERLOADED,
    "error beside text": SAID.replace(b'{"type"', b'{"error": {"message": "x"}, "type"', 1),
    "another type under the name": SAID.replace(b'"type": "content_block_delta"', b'"type": "message_stop"'),
    "done": b"data: [DONE]\n\n",
    "comment": b": ping\n\n",
    "comment in the event": b": ping\n" + SAID,
    "id": b"id: 5\n" + SAID,
    "no name": SAID.partition(b"\n")[2],
    "name behind the data": SAID.partition(b"\n")[2][:-1] + b"event: ping\n\n",
    "two data lines": SAID.replace(b'"delta"', b'\ndata: "delta"'),
    "two objects in one event": SAID[:-2] + b"," + SAID.partition(b"data: ")[2],
    "no space": SAID.replace(b"data: ", b"data:"),
    "crlf": SAID.replace(b"\n", b"\r\n"),
    "not json": b"event: content_block_delta\ndata: {broken}\n\n",
    "half a surrogate": SAID.replace(b"Hello", b"\\ud83d"),
    "no data": b"event: content_block_delta\n\n",
    "three newlines": SAID + b"\n",
}


def judged(*reads: bytes, plain: bool) -> tuple[bytes, object, str]:
    """What a client gets of the reads, what was learnt, and the text; with or without the short way."""
    inspector = ANTHROPIC.stream_inspector(ask())
    parser = EventStreamParser(keep_comments=True)
    out = b""
    for read in reads:
        passed = inspector.observe_plain(read)[1] if plain and parser.is_between_events else 0
        out += read[:passed]
        for event in parser.feed(read[passed:]):
            out += inspector.observe(event, 0)[1]
    facts = inspector.facts
    return out, dataclasses.replace(facts, received=NOTHING_RECEIVED), facts.received.text


@pytest.mark.parametrize(
    ("reads", "count"),
    [([SAID], 1), ([SAID, CJK, THOUGHT, SAID], 4)],
    ids=["one", "several"],
)
def test_text_takes_the_short_way(reads, count):
    inspector = ANTHROPIC.stream_inspector(ask())
    for event in events_of(HEAD):
        inspector.observe(event, 0)
    data = b"".join(reads)
    assert inspector.observe_plain(data, in_full=True) == (count, len(data))


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
@pytest.mark.parametrize("place", range(3))
def test_anything_else_in_the_read_is_looked_at_event_by_event(other, place):
    frames = [SAID, CJK]
    frames.insert(place, other)
    reads = [HEAD, b"".join(frames), SAID]
    assert judged(*reads, plain=True) == judged(*reads, plain=False)


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_a_read_that_is_not_plain_has_no_effect(other):
    inspector = ANTHROPIC.stream_inspector(ask())
    for event in events_of(HEAD):
        inspector.observe(event, 0)
    assert inspector.observe_plain(SAID + other, in_full=True) == (0, 0)
    assert inspector.facts.received.text == ""


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_cut_of_any_mixture(data):
    frames = data.draw(st.lists(st.sampled_from([SAID, CJK, THOUGHT, *OTHERS.values()]), max_size=6))
    stream = HEAD + b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    reads = [stream[start:end] for start, end in itertools.pairwise([0, *cuts, len(stream)])]
    assert judged(*reads, plain=True) == judged(*reads, plain=False)


def test_after_the_end_mark_nothing_is_plain():
    inspector = ANTHROPIC.stream_inspector(ask())
    for event in events_of(HELLO):
        inspector.observe(event, 0)
    assert inspector.observe_plain(SAID) == (0, 0)


def test_streams_of_something_else_are_not_tried_for_ever():
    inspector = ANTHROPIC.stream_inspector(ask())
    broken = b"event: content_block_delta\ndata: {broken}\n\n"
    for _ in range(4):
        assert inspector.observe_plain(broken) == (0, 0)
    assert inspector.observe_plain(SAID) == (0, 0)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"event: error\n", b"event: message_delta\n"]))
def test_garbage_never_raises(data, name):
    block = name + b"data: " + data + b"\n\n"
    assert judged(HEAD, block, SAID, plain=True) == judged(HEAD, block, SAID, plain=False)
