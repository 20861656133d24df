"""One request and its answer on the socket: what behaviours are written with.

Behaviours say what happens; this module does the I/O. Must not import: Django, settings.
"""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from gateway.simulator.answer import Answer, Ask, echo_of
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame, Part, encode, head
from gateway.simulator.json_values import JsonObject
from gateway.simulator.received import Received
from gateway.simulator.shapes.base import JSON, Payload, Shape
from gateway.simulator.shapes.openai_chat import OpenAIChat, completion_id
from gateway.simulator.shapes.openai_responses import OpenAIResponses
from gateway.simulator.shapes.openrouter import generation_of

EVENT_STREAM = "text/event-stream; charset=utf-8"
FrameEdit = Callable[[list[Frame]], list[Frame]]
WholeEdit = Callable[[JsonObject], JsonObject]

# A reset may overtake bytes the peer has not read yet: give it a moment to read them.
_BEFORE_RESET_S = 0.05
_STORED_AT_MOST = 1000


@dataclass(slots=True)
class Memory:
    """What outlives a request: how often each model name was tried, and stored response objects."""

    tries: Counter[str] = field(default_factory=Counter)
    stored: dict[str, JsonObject] = field(default_factory=dict)
    generations: dict[str, JsonObject] = field(default_factory=dict)
    """Of chat completions by their ids: what OpenRouter tells of them afterwards."""
    unknown_for: Counter[str] = field(default_factory=Counter)
    """How often a generation is still to be asked about in vain."""

    def keep(self, identifier: str, stored: JsonObject) -> None:
        """Store an object; the oldest goes when there are too many."""
        _keep(self.stored, identifier, stored)

    def generation(self, identifier: str) -> JsonObject | None:
        """None while it is not known, or not yet."""
        if self.unknown_for[identifier] > 0:
            self.unknown_for[identifier] -= 1
            return None
        return self.generations.get(identifier)

    def keep_generation(self, identifier: str, generation: JsonObject) -> None:
        """As `keep`."""
        _keep(self.generations, identifier, generation)


def _keep(table: dict[str, JsonObject], identifier: str, value: JsonObject) -> None:
    table[identifier] = value
    if len(table) > _STORED_AT_MOST:
        del table[next(iter(table))]


class Exchange:
    """Answers one request in its dialect. Times are in seconds."""

    def __init__(
        self, request: web.Request, received: Received, shape: Shape, *, pace_s: float, memory: Memory
    ) -> None:
        self.received = received
        self.shape = shape
        self.ask: Ask = shape.ask(received)
        self.pace_s = pace_s
        self.memory = memory
        self.response: web.StreamResponse | None = None
        self._request = request

    async def respond(
        self,
        answer: Answer | None = None,
        *,
        pace_s: float | None = None,
        edit_frames: FrameEdit | None = None,
        edit_whole: WholeEdit | None = None,
        newline: bytes | None = None,
    ) -> None:
        """Answer properly, streamed or whole as asked; the edits are where a behaviour differs."""
        answer = answer or echo_of(self.ask)
        self._store(answer)
        if not self.ask.stream:
            await self.send_payload(self.payload(answer, edit_whole), pace_s=pace_s)
            return
        frames = self.shape.frames(answer)
        await self.send_frames(edit_frames(frames) if edit_frames else frames, pace_s=pace_s, newline=newline)

    def payload(self, answer: Answer, edit: WholeEdit | None = None) -> Payload:
        """The whole form of an answer, edited if it is JSON."""
        payload = self.shape.whole(answer)
        if edit is None or payload.json is None:
            return payload
        return Payload(json=edit(payload.json))

    async def begin(
        self, content_type: str = EVENT_STREAM, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Send status and headers now, without any byte of the body. A second call does nothing."""
        if self.response is not None:
            return
        response = web.StreamResponse(
            status=status, headers={"Content-Type": content_type, **(headers or {})}
        )
        response.headers.setdefault("x-request-id", f"req_sim_{id(self):x}")
        self.response = response
        await response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Write body bytes as one chunk, headers first if they are not out yet."""
        await self.begin()
        if self.response is not None and data:
            await self.response.write(data)

    async def send_frames(
        self, frames: Sequence[Frame], *, pace_s: float | None = None, newline: bytes | None = None
    ) -> None:
        """Write events, waiting before each piece of text but the first."""
        pace_s = self.pace_s if pace_s is None else pace_s
        newline = newline or self.shape.newline
        has_spoken = False
        await self.begin()
        for frame in frames:
            if pace_s and has_spoken and frame.part in {Part.TEXT, Part.TOOL}:
                await asyncio.sleep(pace_s)
            has_spoken = has_spoken or frame.part in {Part.TEXT, Part.TOOL}
            await self.write(encode(frame, newline))

    async def send_payload(
        self,
        payload: Payload,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        pace_s: float | None = None,
    ) -> None:
        """Write a whole body with its length."""
        body = payload.body()
        length = {} if status in {204, 304} else {"Content-Length": str(len(body))}
        await self.begin(payload.content_type, status=status, headers={**length, **(headers or {})})
        if status in {204, 304} or self._request.method == "HEAD":
            return
        size = max(1, -(-len(body) // payload.slices))
        for start in range(0, len(body), size):
            if start:
                await asyncio.sleep(self.pace_s if pace_s is None else pace_s)
            await self.write(body[start : start + size])

    async def send_error(
        self, fault: Fault, *, status: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        """An error in the dialect's own shape; `status` if it is to differ from the fault's."""
        payload = Payload(json=self.shape.error(fault))
        await self.send_payload(payload, status=status or fault.status, headers=headers)

    async def send_part(self, texts: int) -> None:
        """Begin to answer and stop in the middle: after `texts` pieces, or after half of a whole body."""
        answer = echo_of(self.ask, at_least=texts + 1)
        if self.ask.stream:
            await self.send_frames(head(self.shape.frames(answer), texts))
            return
        payload = self.payload(answer)
        body = payload.body()
        await self.begin(payload.content_type)
        await self.write(body[: len(body) // 2] if texts else b"")

    async def write_raw(self, data: bytes) -> None:
        """Write to the socket, past every HTTP rule."""
        if (transport := self._request.transport) is not None:
            transport.write(data)

    async def reset(self) -> None:
        """Cut the connection with a TCP reset, as a crashed process or a firewall does."""
        await asyncio.sleep(_BEFORE_RESET_S)
        if (transport := self._request.transport) is None:
            return
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def hang_up(self) -> None:
        """Close the connection in the middle of things, with a FIN: what was written still arrives."""
        if (transport := self._request.transport) is not None:
            transport.close()

    async def silence(self) -> None:
        """Keep the connection and say nothing more, until the client leaves."""
        await asyncio.Event().wait()

    async def comments(self, seconds: float | None, *, every_s: float) -> None:
        """Keepalives for so long (None: for ever): SSE comments, or blank lines before a JSON body."""
        await self.begin(EVENT_STREAM if self.ask.stream else JSON)
        comment = b": keepalive\n\n" if self.ask.stream else b"\n"
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while end is None or loop.time() < end:
            await self.write(comment)
            await asyncio.sleep(every_s if end is None else max(0.0, min(every_s, end - loop.time())))

    def _store(self, answer: Answer) -> None:
        """Keep what later GETs ask for, before any event names its id."""
        if isinstance(self.shape, OpenAIResponses) and self.ask.body.get("store") is not False:
            whole = self.shape.whole(answer).json or {}
            self.memory.keep(str(whole.get("id")), whole)
        if isinstance(self.shape, OpenAIChat):
            self.memory.keep_generation(completion_id(answer), generation_of(answer))

    async def finish(self) -> web.StreamResponse:
        """The response for the server to end; one that says 500 if the behaviour sent nothing."""
        if self.response is None:
            self.response = web.Response(status=500, text="The behaviour sent nothing.")
        return self.response
