"""The store's wire: replies in their order and as redis-py names them; whatever goes wrong ends the connection."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import InvalidResponse, NoScriptError, ReadOnlyError, ResponseError

from billing.admission.redis.wire import Wire


class Transport:
    def __init__(self):
        self.written = b""
        self.is_aborted = False

    def is_closing(self):
        return self.is_aborted

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_aborted = True


class Before(asyncio.Protocol):
    was_told = False

    def connection_lost(self, exc):
        self.was_told = True


@pytest.fixture
def transport():
    return Transport()


@pytest.fixture
def before():
    return Before()


@pytest.fixture
async def wire(transport, before):
    return Wire(transport, before)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
async def test_replies_come_in_order_however_they_are_cut(wire, transport, size):
    replies = wire.send(b"commands", 4)
    data = b"$3\r\nabc\r\n:7\r\n$-1\r\n*2\r\n$1\r\nx\r\n:1\r\n"
    for start in range(0, len(data), size):
        assert not replies.done()
        wire.data_received(data[start : start + size])
    assert await replies == [b"abc", 7, None, [b"x", 1]]
    assert transport.written == b"commands"
    assert not wire.is_lost


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        (b"-NOSCRIPT No matching script.", NoScriptError, "No matching script."),
        (b"-READONLY You can't write.", ReadOnlyError, "You can't write."),
        (b"-ERR Error running script", ResponseError, "ERR Error running script"),
    ],
)
async def test_a_commands_error_stands_in_its_place(wire, line, kind, text):
    replies = wire.send(b"", 2)
    wire.data_received(line + b"\r\n+OK\r\n")
    error, rest = await replies
    assert type(error) is kind
    assert str(error) == text
    assert rest == b"OK"


async def test_one_batch_follows_another(wire):
    for number in range(3):
        replies = wire.send(b"", 1)
        wire.data_received(b":%d\r\n" % number)
        assert await replies == [number]


async def test_a_batch_whose_time_is_over_ends_the_connection(wire, transport):
    replies = wire.send(b"", 1)
    wire.expire()
    with pytest.raises(TimeoutError):
        await replies
    assert wire.is_lost
    assert transport.is_aborted
    wire.data_received(b":1\r\n")  # too late
    later = wire.send(b"", 1)
    with pytest.raises(LostError):
        await later


async def test_a_reply_nobody_asked_for_ends_the_connection(wire, transport):
    wire.data_received(b":1\r\n")
    assert transport.is_aborted
    assert wire.is_lost


@pytest.mark.parametrize(
    "data", [b":1\r\n:2\r\n", b"HTTP/1.1 400 Bad Request\r\n"], ids=["more-than-asked-for", "no-reply"]
)
async def test_what_cannot_be_the_reply_ends_the_connection(wire, transport, data):
    replies = wire.send(b"", 1)
    wire.data_received(data)
    with pytest.raises(InvalidResponse):
        await replies
    assert transport.is_aborted


async def test_a_lost_connection_fails_the_batch_and_is_told_to_the_library(wire, before):
    replies = wire.send(b"", 1)
    wire.connection_lost(ConnectionResetError())
    with pytest.raises(LostError):
        await replies
    assert before.was_told
    assert wire.is_lost


async def test_a_cancelled_caller_leaves_no_reply_for_the_next(wire):
    replies = wire.send(b"", 1)
    replies.cancel()
    wire.data_received(b":1\r\n")
    again = wire.send(b"", 1)
    wire.data_received(b":2\r\n")
    assert await again == [2]
