"""A client of the gateway that sends many requests and remembers what became of each."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import aiohttp
import orjson

from tests.chaos.cluster import Server

LONG = 600
"""Words: with `interval-1`, a stream that outlasts every test."""


@dataclass(slots=True, eq=False)
class Sent:
    """One request. name: its id of the client's, and the first word it says. status: 0 = no answer came.

    events: that carried text. code: of the error, wherever it stood. is_whole: the answer came to its end.
    """

    name: str
    server: Server
    model: str
    status: int = 0
    request_id: str = ""
    events: int = 0
    code: str = ""
    is_whole: bool = False
    text_size: int = 0
    task: asyncio.Task[None] = field(init=False, repr=False)


class Client:
    """An async context manager; what still runs at its end is left behind."""

    def __init__(self, name: str, key: str) -> None:
        self._name, self._key = name, key
        self._numbers = itertools.count(1)
        self.sent: list[Sent] = []

    async def __aenter__(self) -> Self:
        limit = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(total=None))
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [one.task for one in self.sent]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()
        for end in ends:
            if isinstance(end, Exception):  # of this client: an answer it cannot read
                raise end

    def chat(self, server: Server, model: str, *, stream: bool = False, words: int = 5) -> Sent:
        sent = self._new(server, model)
        text = " ".join([sent.name, *(["word"] * words)])
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}
        return self._start(sent, "/v1/chat/completions", body)

    def image(self, server: Server, model: str) -> Sent:
        sent = self._new(server, model)
        return self._start(sent, "/v1/images/generations", {"model": model, "prompt": f"{sent.name} a boat"})

    def each(self, count: int, servers: Sequence[Server], send: Callable[[Server], Sent]) -> list[Sent]:
        """As many requests, the servers in turn."""
        return [send(servers[number % len(servers)]) for number in range(count)]

    def _new(self, server: Server, model: str) -> Sent:
        return Sent(f"{self._name}-{next(self._numbers)}", server, model)

    def _start(self, sent: Sent, path: str, body: dict[str, object]) -> Sent:
        sent.task = asyncio.create_task(self._send(sent, path, body), name=sent.name)
        self.sent.append(sent)
        return sent

    async def _send(self, sent: Sent, path: str, body: dict[str, object]) -> None:
        headers = {"Authorization": f"Bearer {self._key}", "X-Client-Request-Id": sent.name}
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with self._session.post(sent.server.url + path, json=body, headers=headers) as answer:
                sent.status = answer.status
                sent.request_id = answer.headers.get("x-request-id", "")
                if answer.content_type == "text/event-stream":
                    await _read_stream(sent, answer)
                else:
                    value = orjson.loads(await answer.read())
                    sent.code = (value.get("error") or {}).get("code") or ""
                    sent.is_whole = True


async def _read_stream(sent: Sent, answer: aiohttp.ClientResponse) -> None:
    async for line in answer.content:
        data = line.strip().removeprefix(b"data: ")
        if not line.startswith(b"data: "):
            continue
        if data == b"[DONE]":
            sent.is_whole = True
            continue
        event = orjson.loads(data)
        if error := event.get("error"):
            sent.code = error.get("code") or error.get("type") or "error"
        for choice in event.get("choices") or ():
            text = choice["delta"].get("content") or ""
            sent.events += bool(text)
            sent.text_size += len(text)


async def until(what: Callable[[], object], message: str, within_s: float = 60.0) -> float:
    """Waits for `what()` to become true; the seconds it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within_s, message
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def all_over(sent: Iterable[Sent], within_s: float = 60.0, *, may_be_cut: bool = False) -> None:
    """Each has its answer to the end, or was told of an error. may_be_cut: whoever answers was killed."""
    sent = list(sent)
    _, pending = await asyncio.wait([one.task for one in sent], timeout=within_s)
    assert not pending, f"{len(pending)} of {len(sent)} requests are not over"
    for one in sent:
        one.task.result()
    cut = [one for one in sent if not one.is_whole and not one.code]
    assert may_be_cut or not cut, f"{len(cut)} of {len(sent)} answers broke off: {cut[:3]}"


class Trickle:
    """Short requests one after another, streamed and whole in turn, on several servers, until the block ends."""

    def __init__(self, client: Client, servers: Sequence[Server], *, every_s: float = 0.1) -> None:
        self._client, self._servers, self._every_s = client, servers, every_s
        self.sent: list[Sent] = []

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await all_over(self.sent)

    async def _run(self) -> None:
        for number in itertools.count():
            server = self._servers[number % len(self._servers)]
            self.sent.append(self._client.chat(server, "echo-0", stream=number // 2 % 2 == 0))
            await asyncio.sleep(self._every_s)

    @property
    def statuses(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in self.sent:
            found[one.status] = found.get(one.status, 0) + 1
        return found
