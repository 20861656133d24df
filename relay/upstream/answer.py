"""What one relay request gives its client: a head, once, and then a whole body or a pumped one."""

import asyncio

import msgspec

from relay.core.dialects.base import EVENT_STREAM, StreamForm
from relay.core.errors import Refusal
from relay.upstream.pump import Pump

_UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_STREAM_OWN = frozenset(
    {b"content-type", b"cache-control", b"x-accel-buffering", b"content-length", b"content-encoding"}
)


class Head(msgspec.Struct, frozen=True):
    """body: None when the answer is pumped. is_event_stream: a failure can be told within the answer.

    keepalive: what is written into such a stream while it is silent.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None = None
    is_event_stream: bool = False
    keepalive: bytes = EVENT_STREAM.keepalive


def stream_head(
    upstream_headers: list[tuple[bytes, bytes]], status: int = 200, form: StreamForm = EVENT_STREAM
) -> Head:
    """A stream's head: the upstream's own headers that may pass, never a length or a coding."""
    passed = tuple(pair for pair in upstream_headers if pair[0].lower() not in _STREAM_OWN)
    headers = ((b"content-type", form.content_type), *_UNBUFFERED, *passed)
    return Head(status, headers, is_event_stream=True, keepalive=form.keepalive)


class Answer:
    """The client's side of a running request. `head` is awaited by the view, once."""

    __slots__ = ("head", "pump")

    def __init__(self, pump: Pump) -> None:
        self.head: asyncio.Future[Head] = pump.loop.create_future()
        self.pump = pump

    @property
    def is_begun(self) -> bool:
        """A status line may be on its way: errors are told in-band from here on."""
        return self.head.done() and not self.head.cancelled() and self.head.exception() is None

    def begin(self, head: Head) -> None:
        """Gives the client its head. Nothing happens if it has one (early commit) or has left."""
        if self.head.done():
            return
        if head.is_event_stream:
            self.pump.start_keepalives(head.keepalive)
        self.head.set_result(head)

    def refuse(self, refusal: Refusal) -> None:
        if not self.head.done():
            self.head.set_exception(refusal)
