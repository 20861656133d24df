"""The response that carries a relay answer to the client, and tells the runtime what became of it."""

import asyncio
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Protocol, cast

from django.http.response import HttpResponseBase, ResponseHeaders

from gateway.front.connection import BODY_FOLLOWS, ClientConnection
from gateway.front.sending import SLICE_BYTES, Send, encoded_headers
from relay.core.end_reasons import EndReason
from relay.upstream.answer import Head
from relay.upstream.running import RunningRequest

IN_FLIGHT_BYTES = 16 * 1024
"""What a reader far away may not have acknowledged yet when the last write is done."""


class Copy(Protocol):
    """Whoever wants to have what the client is given, where it goes out as it comes."""

    def add(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """That was all of it. Not called for an answer that broke off."""


class _OwnHeaders(dict[str, str]):
    """What the gateway adds to an upstream's headers. Names as they are set: only code of ours sets any."""

    def __setitem__(self, name: str, value: object) -> None:
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            text = ResponseHeaders({name: text})[name]  # encodes it, or refuses line breaks
        super().__setitem__(name, text)


class RelayAnswer(HttpResponseBase):
    """Writes itself (`gateway.front.handler.TransmittedResponse`): the whole body, or the pump's items."""

    streaming = True

    def __init__(self, head: Head, running: RunningRequest) -> None:
        # Not super().__init__(): it would make up a content type, and the head has its own.
        self.status_code = head.status
        self.headers = cast("ResponseHeaders", _OwnHeaders())
        self.cookies = SimpleCookie()
        self.closed = False
        self._resource_closers: list[Callable[[], object]] = []
        self._handler_class = self._reason_phrase = self._charset = None
        self.head = head
        self.copy_to: Copy | None = None
        self._running = running
        self._has_left = False

    def client_left(self) -> None:
        self._has_left = True
        self._running.stop(EndReason.CLIENT_DISCONNECTED)

    async def transmit(self, send: Send, connection: ClientConnection) -> None:
        running = self._running
        running.on_write_timeout = connection.abort
        is_written = False
        try:
            if self.head.body is None:
                is_written = await self._send_pumped(send, connection)
            else:
                is_written = await self._send_whole(self.head.body, send, connection)
            if is_written and self.copy_to is not None and not self._has_left:
                self.copy_to.finish()
        except asyncio.CancelledError:
            running.stop(EndReason.GATEWAY_SHUTDOWN)
            raise
        finally:
            size = running.pump.bytes_out if self.head.body is None else len(self.head.body)
            is_consumed = is_written and not self._has_left and _is_taken(connection, size)
            running.client_done(consumed=is_consumed)
            await running.join()

    async def _send_pumped(self, send: Send, connection: ClientConnection) -> bool:
        """True when the answer was written to its end."""
        pump = self._running.pump
        pump.begin_write()
        await self._send_head(send, (), body_follows=not pump.is_empty)
        copy = self.copy_to
        async for data in pump:
            if copy is not None:
                copy.add(data)
            if pump.is_at_end and not self._running.is_cut:  # the end goes with the last piece, in one write
                await send({"type": "http.response.body", "body": data, "more_body": False})
                return True
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if self._running.is_cut:
            connection.abort()  # an unfinished body must look unfinished
            return False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def _send_whole(self, body: bytes, send: Send, connection: ClientConnection) -> bool:
        pump = self._running.pump
        if len(body) > SLICE_BYTES or connection.unsent():  # else there is nothing that could wait
            pump.begin_write()
        await self._send_head(send, ((b"content-length", b"%d" % len(body)),), body_follows=True)
        last = 0
        if len(body) > SLICE_BYTES:  # slices, so that the deadline measures a reader and not one big buffer
            last = (len(body) - 1) // SLICE_BYTES * SLICE_BYTES
            for start in range(0, last, SLICE_BYTES):
                piece = body[start : start + SLICE_BYTES]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                pump.begin_write()
        rest = body[last:] if last else body
        await send({"type": "http.response.body", "body": rest, "more_body": False})
        return True

    async def _send_head(
        self, send: Send, length: tuple[tuple[bytes, bytes], ...], *, body_follows: bool
    ) -> None:
        headers = [*self.head.headers, *length, *encoded_headers(self.items())]
        message = {"type": "http.response.start", "status": self.head.status, "headers": headers}
        if body_follows:
            message[BODY_FOLLOWS] = True
        await send(message)


def _is_taken(connection: ClientConnection, size: int) -> bool:
    """Nothing is left with us, and no more in the kernel than may be under way to a reader.

    size: bytes of the answer, all of them written.
    """
    if connection.unsent():
        return False
    if size <= IN_FLIGHT_BYTES or not connection.can_abort:  # other servers tell nothing
        return True
    unacknowledged = connection.unacknowledged()  # None: the socket has gone, and what it held with it
    return unacknowledged is not None and unacknowledged <= IN_FLIGHT_BYTES
