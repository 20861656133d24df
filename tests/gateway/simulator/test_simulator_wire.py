"""HTTP itself: what stands on the wire."""

import pytest

from gateway.simulator import Simulator
from tests.gateway.simulator.talk import QUESTION, chat, hear_chat, hear_raw


async def test_nothing_is_said_before_headers_are_cut(simulator: Simulator):
    assert await hear_raw(simulator, chat("reset-before-headers")) == (b"", "RST")
    assert await hear_raw(simulator, chat("close-before-headers")) == (b"", "FIN")


async def test_bad_status_line_is_no_http(simulator: Simulator):
    heard, _ = await hear_raw(simulator, chat("bad-status-line"))
    assert heard.startswith(b"SSH-2.0")
    assert b"HTTP/" not in heard


async def test_bad_chunk_comes_after_a_good_piece(simulator: Simulator):
    heard, _ = await hear_raw(simulator, chat("bad-chunk"))
    assert b'"content":"one"' in heard
    assert heard.endswith(b"\r\nzz\r\nnot a chunk\r\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_short_body_promises_more_than_it_sends(simulator: Simulator, stream: bool):
    heard, _ = await hear_raw(simulator, chat("short-body", stream=stream))
    head, _, body = heard.partition(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    assert int(length.split(b":")[1]) == len(body) + 100


async def test_close_delimited_has_neither_length_nor_chunks(simulator: Simulator):
    heard, end = await hear_raw(simulator, chat("close-delimited"))
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"content-length" not in head.lower()
    assert b"transfer-encoding" not in head.lower()
    assert (body.endswith(b"data: [DONE]\n\n"), end) == (True, "FIN")


async def test_early_hints_come_before_the_answer(simulator: Simulator):
    heard, _ = await hear_raw(simulator, chat("early-hints"), connection="close")
    assert heard.startswith(b"HTTP/1.1 103 ")
    assert b"\r\n\r\nHTTP/1.1 200 OK\r\n" in heard
    assert (await hear_chat(simulator, "early-hints")).text == QUESTION


async def test_trailers_follow_the_last_chunk(simulator: Simulator):
    heard, _ = await hear_raw(simulator, chat("trailers"))
    assert heard.endswith(b"\r\n0\r\nX-Checksum: none\r\n\r\n")
    assert (await hear_chat(simulator, "trailers")).text == QUESTION


async def test_hang_up_answers_whole_without_announcing_the_close(simulator: Simulator):
    heard, end = await hear_raw(simulator, chat("hang-up"))
    assert b"connection: close" not in heard.lower()
    assert heard.endswith(b"data: [DONE]\n\n")
    assert end == "FIN"


async def test_big_header_has_that_size(simulator: Simulator):
    heard, _ = await hear_raw(simulator, chat("big-header-100kb"), connection="close")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert max(len(line) for line in head.split(b"\r\n")) > 100 * 1024
    assert b"[DONE]" in body


async def test_private_headers_are_there_to_be_held_back(simulator: Simulator):
    heard = await hear_chat(simulator, "private-headers")
    for name in ("set-cookie", "openai-organization", "x-ratelimit-remaining-requests", "x-internal-host"):
        assert name in heard.headers
    assert heard.headers["server"] == "upstream-internal/1.0"
    assert heard.text == QUESTION
