"""Event-stream framing and content types."""

import gzip
import json
import zlib

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, hear, hear_chat


@pytest.mark.parametrize(
    ("model", "present", "absent"),
    [
        ("crlf", b"\r\n\r\ndata: ", b"\n\n"),
        ("cr", b"\r\rdata: ", b"\n"),
        ("no-space", b"\n\ndata:{", b"data: "),
        ("bom", b"\xef\xbb\xbfdata: ", b"\r"),
        ("id-lines", b"id: 3\nretry: 3000\ndata: ", b"\r"),
        ("empty-frames", b"event: ping\n\ndata: ", b"\r"),
        ("multi-line-data", b'{\ndata:   "id"', b"\r"),
        ("one-byte-writes", b"\n\ndata: ", b"\r"),
    ],
)
async def test_legal_framing_carries_the_whole_answer(simulator: Simulator, model, present, absent):
    heard = await hear_chat(simulator, model)
    assert present in heard.body
    assert absent not in heard.body
    assert (heard.text, heard.finishes, heard.is_done) == (QUESTION, ["stop"], True)


async def test_framing_behaviours_answer_a_plain_request_plainly(simulator: Simulator):
    for model in (
        "crlf",
        "cr",
        "no-space",
        "bom",
        "id-lines",
        "empty-frames",
        "multi-line-data",
        "one-byte-writes",
    ):
        heard = await hear_chat(simulator, model, stream=False)
        assert heard.json["choices"][0]["message"]["content"] == QUESTION


async def test_unicode_lines_stand_raw_in_the_json(simulator: Simulator):
    heard = await hear_chat(simulator, "unicode-lines")
    assert heard.text == "a\u2028b\u2029c\u0085d" + QUESTION
    assert "\u2028".encode() in heard.body


async def test_not_json_mid_is_one_broken_frame_among_good_ones(simulator: Simulator):
    heard = await hear_chat(simulator, "not-json-mid")
    broken = [
        number for number, (_, data) in enumerate(heard.events) if data != "[DONE]" and not _is_json(data)
    ]
    assert broken == [2]
    good = [json.loads(data) for _, data in heard.events if _is_json(data)]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in good) == QUESTION
    assert heard.is_done


async def test_not_json_first_is_the_first_frame(simulator: Simulator):
    heard = await hear_chat(simulator, "not-json-first")
    assert [_is_json(data) for _, data in heard.events][:2] == [False, True]
    assert not _is_json((await hear_chat(simulator, "not-json-first", stream=False)).body)


def _is_json(data: str | bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


async def test_text_plain_sse_is_an_event_stream_by_another_name(simulator: Simulator):
    heard = await hear_chat(simulator, "text-plain-sse")
    assert heard.headers["content-type"].startswith("text/plain")
    assert (heard.text, heard.is_done) == (QUESTION, True)


async def test_gzip_sse_can_be_read_event_by_event(simulator: Simulator):
    heard = await hear_chat(simulator, "gzip-sse")
    assert heard.headers["content-encoding"] == "gzip"
    flushes = heard.body.split(b"\x00\x00\xff\xff")  # what a sync flush ends with
    first = zlib.decompressobj(wbits=31).decompress(flushes[0] + b"\x00\x00\xff\xff")
    assert first.startswith(b"data: {")
    assert first.endswith(b"}\n\n")
    assert len(flushes) > len(QUESTION.split())
    assert gzip.decompress(heard.body).endswith(b"data: [DONE]\n\n")


async def test_gzip_of_a_whole_answer(simulator: Simulator):
    heard = await hear_chat(simulator, "gzip-sse", stream=False)
    assert json.loads(gzip.decompress(heard.body))["object"] == "chat.completion"


async def test_sse_for_json(simulator: Simulator):
    heard = await hear_chat(simulator, "sse-for-json", stream=False)
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert (heard.text, heard.is_done) == (QUESTION, True)


async def test_json_for_sse(simulator: Simulator):
    heard = await hear_chat(simulator, "json-for-sse")
    assert heard.headers["content-type"] == "application/json"
    assert heard.json["choices"][0]["message"]["content"] == QUESTION


async def test_big_event_is_one_event_of_that_size(simulator: Simulator):
    heard = await hear_chat(simulator, "big-event-8mb", for_s=30)
    assert max(len(data) for _, data in heard.events) >= 8 * 1024 * 1024
    assert (len(heard.text), heard.is_done) == (8 * 1024 * 1024, True)


async def test_many_events_are_that_many_pieces(simulator: Simulator):
    heard = await hear_chat(simulator, "many-events-20000", for_s=30, stream_options={"include_usage": True})
    assert len(heard.events) == 20_000 + 4  # role, finish, usage, [DONE]
    assert heard.usages[-1]["completion_tokens"] == 20_000
    assert heard.is_done


async def test_crlf_is_what_gemini_sends_anyway(simulator: Simulator):
    path = "/v1beta/models/echo:streamGenerateContent?alt=sse"
    heard = await hear(simulator, path, {"contents": [{"parts": [{"text": QUESTION}]}]})
    assert heard.body.count(b"\r\n\r\n") == len(heard.events)
