"""A slow way to Redis that sees which admissions are asked for, and which are given back."""

import asyncio
import contextlib
import itertools
import re
from collections import defaultdict
from urllib.parse import urlsplit

from billing.admission.redis import scripts

SLOW_S = 0.03
"""For scripts that go to Redis, and again for what comes back: together well below what the gateway waits."""
LOST_S = 0.5
"""Nobody waits for an answer so long."""
_LOST_EACH = 200
_BATCH_BYTES = 1 << 20
"""A batch comes in one piece, and is slow once."""

_REQUEST_ID = rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_ADMIT = re.compile(
    scripts.ADMIT.sha.encode() + b".*?" + _REQUEST_ID + rb".*?((?:leaver|stayer|poor)-\d{6})", re.DOTALL
)
# With the ticket of its admission: without one it clears up after a request that ended in its own time.
_WITHDRAW = re.compile(scripts.WITHDRAW.sha.encode() + rb"[^-]{0,40}?" + _REQUEST_ID + rb"\r\n\$[1-9]\d*\r\n")


class SlowStore:
    """Lives on a loop of its own (`start`, `aclose`), lest busy clients make it slower than it should be; the rest
    is for the loop that made it. It knows requests by their client's id: a word of the test and six digits.

    given_back: word → names that begin with it. One batch in two hundred comes back too late for everybody.
    """

    def __init__(self, redis_url: str) -> None:
        place = urlsplit(redis_url)
        self._target = (place.hostname, place.port)
        self._names: dict[bytes, str] = {}
        self._asking_loop = asyncio.get_running_loop()
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = itertools.count(1)
        self.given_back: defaultdict[str, set[str]] = defaultdict(set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_BATCH_BYTES)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    async def aclose(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def is_asked(self, name: str) -> asyncio.Event:
        """Set when the store is asked for this one's admission, long before the answer comes. Ask first."""
        event = self._waiting[name] = asyncio.Event()
        return event

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection(*self._target, limit=_BATCH_BYTES)
            copies = [
                asyncio.create_task(self._to_store(reader, there_writer)),
                asyncio.create_task(self._from_store(there_reader, writer)),
            ]
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                there_writer.transport.abort()
        writer.transport.abort()
        self._tasks.discard(task)

    async def _to_store(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unread = b""
        while data := await reader.read(_BATCH_BYTES):
            unread = self._look(unread + data)
            if b"EVALSHA" in unread:  # a new connection's first words are no admission
                await asyncio.sleep(SLOW_S)
            writer.write(data)

    async def _from_store(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_BATCH_BYTES):
            if not data.startswith(b"+OK"):
                await asyncio.sleep(SLOW_S if next(self._turns) % _LOST_EACH else LOST_S)
            writer.write(data)

    def _look(self, sent: bytes) -> bytes:
        """What of it may be half a command."""
        for request_id, name in _ADMIT.findall(sent):
            self._names[request_id] = name.decode()
            if waits := self._waiting.pop(name.decode(), None):
                self._asking_loop.call_soon_threadsafe(waits.set)
        for request_id in _WITHDRAW.findall(sent):
            if name := self._names.get(request_id):
                self.given_back[name.partition("-")[0]].add(name)
        return sent[max(sent.rfind(b"EVALSHA"), 0) :]
