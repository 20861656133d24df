"""Errors inside a 200 and frames that no honest upstream sends."""

import pytest

from relay.core.dialects.anthropic import ANTHROPIC
from relay.core.dialects.base import EventKind
from tests.relay.core.dialects.anthropic_samples import (
    OVERLOADED,
    TEXT,
    ask,
    events_of,
    observed,
    opened,
    said,
    started,
)

PREAMBLE = EventKind.PREAMBLE


@pytest.mark.parametrize(
    ("block", "kind", "message"),
    [
        (OVERLOADED, "overloaded_error", "Overloaded"),
        (b'data: {"type":"error","error":{"type":"api_error","message":"Broken"}}\n\n', "api_error", "Broken"),
        (b'event: error\ndata: {"message":"Broken","code":500}\n\n', "", "Broken"),
        (b"event: error\ndata: it broke\n\n", "error", "it broke"),
        (b"event: error\ndata: {}\n\n", "error", "The upstream reported an error."),
        (b'data: {"detail":"Dead."}\n\n', "detail", "Dead."),
        (b'data: {"object":"error","message":"Dead.","type":"InternalServerError"}\n\n', "InternalServerError", "Dead."),
        (b'data: {"error":{"message":"Dead.","type":"server_error"}}\n\n', "server_error", "Dead."),
        (b'event: message_delta\ndata: {"type":"message_delta","error":{"message":"Dead."}}\n\n', "", "Dead."),
    ],
)  # fmt: skip
def test_errors_of_every_shape(block, kind, message):
    inspector, kinds, out = observed(started(), TEXT, said("x"), block)
    assert kinds[-1] is EventKind.ERROR
    assert out == started() + TEXT + said("x"), "the relay tells its own"
    assert (inspector.facts.error.kind, inspector.facts.error.message) == (kind, message)


@pytest.mark.parametrize("error", ["null", "{}", "false"])
def test_an_error_that_says_nothing_is_none(error):
    block = b'event: ping\ndata: {"type":"ping","error":%b}\n\n' % error.encode()
    assert observed(block)[1:] == ([PREAMBLE], block)


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":7}',
        b'{"type":"content_block_delta","index":"0","delta":[]}',
        b'{"type":"content_block_delta","index":1e999,"delta":{"type":5,"text":["x"]}}',
        b'{"type":"content_block_start","content_block":"text"}',
        b'{"type":"message_start","message":[],"usage":7}',
        b'{"type":"message_delta","delta":null,"usage":{"output_tokens":"many"}}',
        b'{"type":"error","error":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"type":"ping","n":' + b"9" * 5000 + b"}",
        b'{"type":"error","error":{},"n":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b"{" * 100_000,
        b"\xff\xfe",
        b"NaN",
    ],
)
@pytest.mark.parametrize("name", [b"", b"event: error\n", b"event: content_block_delta\n"])
def test_nothing_raises(data, name):
    observed(name + b"data: " + data + b"\n\n")


def test_hostile_indices_take_no_memory_without_end():
    inspector = ANTHROPIC.stream_inspector(ask())
    for index in range(5_000):
        for event in events_of(opened(index, type="tool_use", id="t", name="n", input={})):
            inspector.observe(event, 0)
    assert inspector.facts.tool_call_count <= 1_024
    assert len(inspector._open_calls) <= 1_024
