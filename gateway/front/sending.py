"""Whole answers on the wire: headers, length, slices, and a deadline on every write.

Streams write themselves (`gateway.front.handler.TransmittedResponse`). Must not import views or the relay.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from django.http import HttpResponse

from gateway.front.connection import BODY_FOLLOWS, ClientConnection

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

WRITE_DEADLINE_S = 60.0
"""One write of a whole answer: handed to the server → accepted. Then the connection is reset."""
SLICE_BYTES = 65_536
"""Slices, so that the deadline measures a reader and not one big buffer."""
LINGER_S = 2.0
"""How long a refused upload is still read: closing on unread bytes would take the answer with it."""

_NO_BODY = frozenset({204, 304})


def encoded_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """`response.items()` as ASGI wants them, names in lower case."""
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]


def with_deadline(send: Send, connection: ClientConnection) -> Send:
    """`send`, but a write that is not accepted in time resets the connection (which ends the write)."""
    call_later = asyncio.get_running_loop().call_later

    async def guarded(message: Message) -> None:
        if not connection.unsent():  # nothing in the way: this write cannot wait
            await send(message)
            return
        deadline = call_later(WRITE_DEADLINE_S, connection.abort)
        try:
            await send(message)
        finally:
            deadline.cancel()

    return guarded


async def send_whole(response: HttpResponse, send: Send, connection: ClientConnection) -> None:
    """Head and body of a finished answer."""
    guarded = with_deadline(send, connection)
    body = await _send_head(response, guarded)
    for start in range(0, len(body) - SLICE_BYTES, SLICE_BYTES):
        await guarded(_part(body[start : start + SLICE_BYTES], more=True))
    await guarded(_part(body[_last_slice(len(body)) :], more=False))


async def send_refusal(
    response: HttpResponse, send: Send, connection: ClientConnection, receive: Receive
) -> None:
    """An answer given before the request body was read: close behind it, but let the client read it first."""
    response["Connection"] = "close"
    guarded = with_deadline(send, connection)
    body = await _send_head(response, guarded)
    await guarded(_part(body, more=True))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await _discard(receive)
    await guarded(_part(b"", more=False))


async def _send_head(response: HttpResponse, send: Send) -> bytes:
    """Sends the head, returns the body."""
    status = response.status_code
    body = b"" if status in _NO_BODY else response.content
    headers = encoded_headers(response.items())
    if status not in _NO_BODY and not any(name == b"content-length" for name, _ in headers):
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers, BODY_FOLLOWS: True})
    return body


async def _discard(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return


def _part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _last_slice(length: int) -> int:
    """Where the last slice of `length` bytes begins."""
    return max(0, (length - 1) // SLICE_BYTES * SLICE_BYTES)
