"""The closed list of what changes in a message stream, with its reasons; all else passes byte for byte."""

import json

import pytest

from relay.core.dialects.base import EventKind
from tests.relay.core.dialects.anthropic_samples import (
    HELLO,
    STOP,
    STREAMS,
    TEXT,
    calling,
    closed,
    ended,
    events_of,
    observed,
    said,
    started,
)


def test_a_missing_event_line_is_rebuilt_from_the_payload():
    """The official SDKs skip frames without one."""
    for stream in STREAMS.values():
        bare = b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event: "))
        assert observed(bare)[2] == stream


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b"event: message\n", b""),
        (b"event:\n", b""),
        (b"", b"event:message\n"),
        (b": a comment\n", b""),
        (b"id: 7\n", b""),
    ],
)
def test_a_name_that_is_none_gives_way(head, tail):
    block = head + b'data: {"type":"ping"}\n' + tail + b"\n"
    [event] = events_of(observed(block)[2])
    assert (event.event, event.data) == ("ping", '{"type":"ping"}')


def test_a_name_that_could_break_the_frame_is_not_written():
    block = b'data: {"type":"a\\nevent: error"}\n\n'
    assert observed(block)[2] == block


@pytest.mark.parametrize(
    ("block", "out"),
    [
        (b"event: content_block_delta\n\n", b""),
        (b"event: ping\n: still here\n\n", b": still here\n\n"),
        (b"event: ping\ndata:\n\n", b""),
        (b": still here\n\n", b": still here\n\n"),
    ],
)
def test_blocks_without_data_are_withheld_their_comments_pass(block, out):
    """anthropics/anthropic-sdk-typescript#861"""
    assert observed(block)[1:] == ([EventKind.COMMENT], out)


def test_end_turn_behind_whole_tool_calls_becomes_tool_use():
    """maximhq/bifrost#6123: agents take `end_turn` for the end and never run the tool."""
    stream = b"".join([started(), calling(['{"city": "Oslo"}']), ended("end_turn"), STOP])
    inspector, _, out = observed(stream)
    assert inspector.facts.finish_reasons == {0: "tool_use"}
    events = events_of(out)
    changed = [event for event in events if event.event == "message_delta"]
    assert json.loads(changed[0].data)["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert json.loads(changed[0].data)["usage"] == {"output_tokens": 15}
    assert out.replace(changed[0].raw, ended("end_turn")) == stream, "nothing else changed"


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        (calling(['{"city": "Os']), "end_turn"),
        (calling(['{"city": "Oslo"}']), "max_tokens"),
        (calling(['{"city": "Oslo"}'], type="server_tool_use"), "end_turn"),
    ],
    ids=["broken", "cut", "upstream's own tool"],
)
def test_other_stop_reasons_stay(calls, reason):
    stream = b"".join([started(), calls, ended(reason), STOP])
    inspector, _, out = observed(stream)
    assert out == stream
    assert inspector.facts.finish_reasons == {0: reason}


def test_the_missing_end_mark_is_added_once_the_message_is_finished():
    """esengine/DeepSeek-Reasonix#8756: compatible gateways leave `message_stop` out."""
    inspector, _, _ = observed(started(), TEXT, said("x"), closed(), ended())
    assert inspector.closing() == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert observed(started(), TEXT, said("x"))[0].closing() == b""
    assert observed(HELLO)[0].closing() == b""


def test_a_second_end_mark_is_dropped():
    assert observed(HELLO, STOP)[2] == HELLO
    assert observed(HELLO, b"data: [DONE]\n\n")[2] == HELLO
