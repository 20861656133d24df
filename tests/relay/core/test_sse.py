"""The event-stream parser and writer: every split, any bytes, linear cost, flat memory."""

import itertools
import re
import time
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.sse import (
    DONE,
    KEEPALIVE,
    Event,
    EventStreamParser,
    EventTooLarge,
    encode_event,
)
from tests.relay.core.sse_fixtures import FIXTURES, OPENAI_CHUNK, StreamFixture

by_name = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)


def read(chunks: Sequence[bytes], **options) -> list[Event]:
    parser = EventStreamParser(**options)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def cut(body: bytes, positions: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(positions), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(edges)]


def reference(body: bytes) -> list[Event]:
    """The standard's text, literally and slowly: decode all, split into lines, field by field."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = re.split("\r\n|\r|\n", text)[:-1]  # what follows the last line end is not a line yet
    events: list[Event] = []
    name, data, last_id, retry = "", "", "", None
    for line in lines:
        if line == "":
            if data:
                events.append(Event(name or "message", data[:-1], last_id, retry))
            name, data, retry = "", "", None
            continue
        if line.startswith(":"):
            continue
        field, value = line.split(":", 1) if ":" in line else (line, "")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,18}", value):
            retry = int(value)
    return events


# --- the same events whatever the cut ---------------------------------------------------------------


@by_name
def test_whole_stream_in_one_read(fixture: StreamFixture) -> None:
    assert read([fixture.body]) == list(fixture.events)


@by_name
def test_every_split_in_two(fixture: StreamFixture) -> None:
    for position in range(len(fixture.body) + 1):
        assert read(cut(fixture.body, [position])) == list(fixture.events), position


@by_name
def test_every_split_in_three_of_small_distance(fixture: StreamFixture) -> None:
    for position in range(len(fixture.body)):
        for distance in (1, 2, 3):
            assert read(cut(fixture.body, [position, position + distance])) == list(fixture.events)


@by_name
def test_byte_by_byte(fixture: StreamFixture) -> None:
    assert read([bytes([byte]) for byte in fixture.body]) == list(fixture.events)


@by_name
def test_the_naive_reference_agrees(fixture: StreamFixture) -> None:
    assert reference(fixture.body) == list(fixture.events)


_PIECES = st.sampled_from(
    [b"data", b"data:", b"data: ", b"event: ", b"event:", b"id: ", b"retry: ", b":", b" ", b"{}", b"7",
     b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\0", b"\xef\xbb\xbf", b"\xff",
     "é".encode(), "\u2028".encode(), "🌍".encode(), b"text", b"[DONE]"]
)  # fmt: skip
_STREAMS = st.lists(st.one_of(_PIECES, st.binary(max_size=3)), max_size=40).map(b"".join)


@settings(max_examples=600, deadline=None)
@given(body=_STREAMS, data=st.data())
def test_any_stream_in_any_split_matches_the_reference(body: bytes, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, len(body)), max_size=12))
    assert read(cut(body, positions)) == reference(body)


@settings(max_examples=300, deadline=None)
@given(body=_STREAMS, data=st.data())
def test_any_forwarded_blocks_mean_the_same_to_the_client(body: bytes, data: st.DataObject) -> None:
    """What a relay forwards (`raw`) reads like the original, with or without a cut."""
    positions = data.draw(st.lists(st.integers(0, len(body)), max_size=12))
    forwarded = b"".join(event.raw for event in read(cut(body, positions), keep_comments=True))
    # A raw block that starts with U+FEFF would lose it at the start of a stream: put a comment first.
    assert read([KEEPALIVE + forwarded]) == reference(body)


def test_event_is_not_delayed_by_a_cr_at_the_end_of_a_read() -> None:
    parser = EventStreamParser()
    assert parser.feed(b"data: 1\r\n\r") == [Event("message", "1")]
    assert parser.feed(b"\ndata: 2\r\n\r\n") == [Event("message", "2")]
    assert parser.pending_bytes == 0


def test_events_leave_as_soon_as_they_are_whole() -> None:
    parser = EventStreamParser()
    assert parser.feed(b"data: 1\n\ndata: 2\n\ndata: 3") == [Event("message", "1"), Event("message", "2")]
    assert parser.pending_bytes == len(b"data: 3")
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\n") == [Event("message", "3")]


# --- raw bytes and comments -------------------------------------------------------------------------


def test_raw_is_the_block_as_it_came() -> None:
    blocks = [b'event: x\nid: 7\ndata:{"b":1.0,  "a":2}\n\n', b": note\r\ndata: 2\r\n\r\n", b"data: 3\n\n"]
    for positions in ([], [3], [20, 21], [44]):
        assert [event.raw for event in read(cut(b"".join(blocks), positions))] == blocks


def test_comments_are_dropped_unless_asked_for() -> None:
    body = b": ping\n\ndata: 1\n\nid: 9\n\n\n: pong\r\n\r\n"
    assert read([body]) == [Event("message", "1")]
    kept = read([body], keep_comments=True)
    assert [(event.raw, event.has_data) for event in kept] == [
        (b": ping\n\n", False),
        (b"data: 1\n\n", True),
        (b"id: 9\n\n", False),
        (b": pong\r\n\r\n", False),
    ]


def test_the_bom_is_not_part_of_raw() -> None:
    """A keepalive may have gone out before: behind it the BOM would spoil the first line."""
    [event] = read([b"\xef", b"\xbb", b"\xbfdata: 1\n\n"])
    assert event.raw == b"data: 1\n\n"


def test_equality_ignores_raw_and_hash_agrees() -> None:
    one, other = Event("message", "1", raw=b"data:1\n\n"), Event("message", "1", raw=b"data: 1\n\n")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Event("message", "1", "id")
    assert one != "1"
    with pytest.raises(AttributeError):
        one.data = "2"  # type: ignore[misc]  # frozen is what is tested


# --- the end of the body ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    ("block", "event"),
    [
        (b"data: [DONE]", Event("message", "[DONE]")),
        (
            b'event: message_stop\ndata: {"type":"message_stop"}',
            Event("message_stop", '{"type":"message_stop"}'),
        ),
        (b'data: {\r\ndata: "a": [1]}', Event("message", '{\n"a": [1]}')),
    ],
)
def test_whole_event_without_its_blank_line_is_kept_at_eof(block: bytes, ending: bytes, event: Event) -> None:
    parser = EventStreamParser()
    assert parser.feed(b"data: 1\n\n" + block + ending) == [Event("message", "1")]
    [last] = parser.close()
    assert last == event
    assert not parser.truncated
    assert read([last.raw]) == [event], "raw was completed so that it can be forwarded"
    assert parser.close() == []


@pytest.mark.parametrize(
    "tail",
    [
        b'data: {"a": 1',
        b"data: [DON",
        b"event: x\n",
        b"da",
        b"data: 12",
        b'data: "text"',
        b"data: [\n",
        b"data:\n",
    ],
)
def test_cut_event_is_dropped_at_eof_and_told(tail: bytes) -> None:
    parser = EventStreamParser()
    assert parser.feed(b"data: 1\n\n" + tail) == [Event("message", "1")]
    assert not parser.truncated
    assert parser.close() == []
    assert parser.truncated
    assert parser.pending_bytes == 0


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n", b": keepalive", b": keepalive\n"])
def test_clean_end_is_not_truncated(tail: bytes) -> None:
    parser = EventStreamParser()
    parser.feed(b"data: 1\n\n" + tail)
    assert parser.close() == []
    assert not parser.truncated


def test_absurdly_nested_tail_is_dropped() -> None:
    parser = EventStreamParser()
    parser.feed(b"data: " + b"[" * 200_000)
    assert parser.close() == []
    assert parser.truncated


# --- the cap ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1000, 5000])
@pytest.mark.parametrize("line", [b"data: x", b": comment", b"data: x\r"], ids=["data", "comment", "crlf"])
def test_event_over_the_cap(size: int, line: bytes) -> None:
    body = (line + b"\n") * 300
    parser = EventStreamParser(max_event_bytes=1000)
    with pytest.raises(EventTooLarge):
        for start in range(0, len(body), size):
            parser.feed(body[start : start + size])
    assert parser.pending_bytes == 0
    with pytest.raises(EventTooLarge):
        parser.feed(b"data: 1\n\n")
    with pytest.raises(EventTooLarge):
        parser.close()


@pytest.mark.parametrize("positions", [[], [500], [999], [500, 1000]])
def test_event_at_the_cap_passes_and_one_byte_more_does_not(positions: list[int]) -> None:
    exact = b"data: " + b"x" * 992 + b"\n\n"
    assert len(read(cut(exact, positions), max_event_bytes=1000)) == 1
    with pytest.raises(EventTooLarge):
        read(cut(b"data: " + b"x" * 993 + b"\n\n", positions), max_event_bytes=1000)


def test_whole_events_before_the_large_one_are_not_lost() -> None:
    parser = EventStreamParser(max_event_bytes=100)
    assert parser.feed(b"data: 1\n\ndata: " + b"x" * 200) == [Event("message", "1")]
    assert parser.pending_bytes == 0
    with pytest.raises(EventTooLarge):
        parser.feed(b"x")


@pytest.mark.parametrize("positions", [[], [50], [99], [106]])
def test_nothing_behind_the_large_event_is_returned(positions: list[int]) -> None:
    """An answer with a hole in it would look whole."""
    parser = EventStreamParser(max_event_bytes=100)
    with pytest.raises(EventTooLarge):
        for chunk in cut(b"data: " + b"x" * 100 + b"\n\ndata: 2\n\n", positions):
            assert parser.feed(chunk) == []


def test_memory_stays_flat_over_the_cap() -> None:
    parser = EventStreamParser(max_event_bytes=256 * 1024)
    chunk = b"x" * 65536
    tracemalloc.start()
    try:
        refused = 0
        parser.feed(b"data: ")
        for _ in range(200):
            try:
                parser.feed(chunk)
            except EventTooLarge:
                refused += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused == 200 - 3
    assert peak < 1024 * 1024


# --- cost -------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """CPU time: neighbours on the machine do not count."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def one_byte_reads(count: int) -> list[bytes]:
    return [b"data: ", *[b"x"] * count, b"\n", b"\n"]


def lines_of_one_event(count: int) -> list[bytes]:
    return [b"data: line\n"] * count + [b"\n"]


def many_events_in_one_read(count: int) -> list[bytes]:
    return [b"data: 1\n\n" * count]


def many_cr_events_in_one_read(count: int) -> list[bytes]:
    return [b"data: 1\r\r" * count]


def many_mixed_events_in_one_read(count: int) -> list[bytes]:
    return [b"data: 1\n\n" * (count // 2) + b"data: 1\r\r" * (count // 2)]


def reads_that_cut_each_event(count: int) -> list[bytes]:
    return [b"data: 1", *[b"1\n\ndata: 1"] * count, b"\n\n"]


def empty_lines(count: int) -> list[bytes]:
    return [b"\n" * count, *[b"\n"] * count]


@pytest.mark.parametrize(
    "shape",
    [
        one_byte_reads,
        lines_of_one_event,
        many_events_in_one_read,
        many_cr_events_in_one_read,
        many_mixed_events_in_one_read,
        reads_that_cut_each_event,
        empty_lines,
    ],
)
def test_cost_is_linear(shape: Callable[[int], list[bytes]]) -> None:
    """Four times the input takes four times as long, not sixteen; 10 leaves room for a busy machine."""
    small, large = shape(20_000), shape(80_000)
    assert seconds(lambda: read(large)) < 10 * seconds(lambda: read(small))


def test_twenty_thousand_events_in_one_read_all_arrive() -> None:
    body = b"".join(b"data: %d\n\n" % number for number in range(20_000))
    assert [event.data for event in read([body])] == [str(number) for number in range(20_000)]


def test_large_event_in_small_reads_is_not_rescanned() -> None:
    """A 12 MB image in 16 KiB reads: rescanning would look at 4.6 GB."""
    body = b"data: " + b"A" * 12_000_000 + b"\n\n"
    chunks = [body[start : start + 16384] for start in range(0, len(body), 16384)]
    [event] = read(chunks)
    assert event.raw == body
    small = chunks[: len(chunks) // 4]
    assert seconds(lambda: read(chunks)) < 12 * seconds(lambda: read(small)) + 0.3


# --- the writer -------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])), name=st.text("abc.:_ é", max_size=8))
def test_written_event_reads_back(text: str, name: str) -> None:
    [event] = read([KEEPALIVE + encode_event(text, name)])
    assert event.data == re.sub("\r\n|\r", "\n", text)
    assert event.event == (name or "message")


def test_written_bytes() -> None:
    assert encode_event('{"a":1}') == b'data: {"a":1}\n\n'
    assert encode_event(b"a\nb\r\nc\rd", "x") == b"event: x\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
    assert encode_event("a\u2028b") == "data: a\u2028b\n\n".encode()
    assert encode_event("1", "a\ndata: forged") == b"event: a data: forged\ndata: 1\n\n"


def test_constants_parse_as_what_they_are() -> None:
    assert read([KEEPALIVE]) == []
    assert read([DONE]) == [Event("message", "[DONE]")]
    assert encode_event("[DONE]") == DONE
    assert read([encode_event(OPENAI_CHUNK)])[0].data == OPENAI_CHUNK
