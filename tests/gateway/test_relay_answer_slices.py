"""A whole answer goes out complete, whatever its size is to the slices it is written in."""

import pytest

from gateway.front.connection import ClientConnection
from gateway.front.sending import SLICE_BYTES
from gateway.responses import RelayAnswer
from relay.upstream.answer import Head


class Pump:
    writes = 0

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
    assert running.pump.writes == len(pieces)  # each write has the whole deadline
    assert running.consumed
