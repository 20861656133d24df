"""A whole answer goes out complete, whatever its size is to the slices it is written in."""

import pytest
from django.http import BadHeaderError

from gateway.front.connection import ClientConnection
from gateway.front.sending import SLICE_BYTES, encoded_headers
from gateway.responses import RelayAnswer
from relay.upstream.answer import Head


class Pump:
    writes = 0
    bytes_out = 0

    def begin_write(self):
        self.writes += 1


class Running:
    def __init__(self):
        self.pump = Pump()
        self.is_cut = False

    def client_done(self, *, consumed):
        self.consumed = consumed

    async def join(self):
        pass


@pytest.mark.parametrize(
    "size", [0, 1, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3 * SLICE_BYTES, 200_001]
)
async def test_every_byte_once_and_in_order(size):
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    sent = []

    async def send(message):
        sent.append(message)

    running = Running()
    await RelayAnswer(Head(200, (), body=body), running).transmit(send, ClientConnection(None))
    start, *pieces = sent
    assert dict(start["headers"])[b"content-length"] == str(size).encode()
    assert b"".join(piece["body"] for piece in pieces) == body
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert all(len(piece["body"]) <= SLICE_BYTES for piece in pieces)
    # Each write has the whole deadline, but for one alone: with nothing before it, it cannot wait.
    assert running.pump.writes == (len(pieces) if len(pieces) > 1 else 0)
    assert running.consumed


async def test_one_slice_behind_an_answer_that_is_not_taken_yet_has_its_deadline():
    class Busy(ClientConnection):
        def unsent(self):
            return 1

    async def send(message):
        pass

    running = Running()
    await RelayAnswer(Head(200, (), body=b"x"), running).transmit(send, Busy(None))
    assert running.pump.writes == 1
    assert not running.consumed


def test_a_header_of_ours_that_is_no_plain_text_is_encoded_and_one_that_breaks_its_line_is_refused():
    answer = RelayAnswer(Head(200, ()), Running())
    answer["X-Relay-Attempts"] = 2
    answer["X-Relay-Model"] = "模型"
    assert dict(encoded_headers(answer.items())) == {
        b"x-relay-attempts": b"2",
        b"x-relay-model": b"=?utf-8?b?5qih5Z6L?=",
    }
    with pytest.raises(BadHeaderError):
        answer["X-Relay-Model"] = "a\r\nSet-Cookie: b"
