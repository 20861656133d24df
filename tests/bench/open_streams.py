"""Memory of one open stream: many streams that are open and say nothing, against the same server without them.

Taken on a fresh server after light traffic. Not read off the loads: their bursts grow the heap for good, and
a server that pauses between runs gives little of it back.
"""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.bench.clients import QuietClient, request_bytes
from tests.bench.machine import rss_kb
from tests.bench.stack import CHAT_PATH, Target, chat_body

WARM_STREAMS = 50
STREAMS = 500
OPEN_PER_SECOND = 250
SILENT_MODEL = "mock-2-60000"  # one event at once, the next in a minute


@dataclass(frozen=True, slots=True)
class OpenMemory:
    """idle_kb: resident, KiB, with `WARM_STREAMS` streams open. kb_per_stream: for each of `STREAMS` more."""

    idle_kb: int
    kb_per_stream: float


async def _open(target: Target, count: int) -> list[QuietClient]:
    loop = asyncio.get_running_loop()
    place = urlsplit(target.url)
    host, port = str(place.hostname), place.port
    request = request_bytes(host, CHAT_PATH, target.key, chat_body(SILENT_MODEL, stream=True))
    clients: list[QuietClient] = []
    for _ in range(count):
        _, client = await loop.create_connection(lambda: QuietClient(request), host, port)
        clients.append(client)
        await asyncio.sleep(1 / OPEN_PER_SECOND)
    await asyncio.sleep(1.0)
    return clients


async def _measured(target: Target) -> OpenMemory:
    clients = await _open(target, WARM_STREAMS)
    idle_kb = rss_kb(target.pids())
    clients += await _open(target, STREAMS)
    grown_kb = rss_kb(target.pids()) - idle_kb
    silent = sum(client.status != 200 or not client.events for client in clients)
    for client in clients:
        client.leave()
    if silent:
        raise RuntimeError(f"{silent} of {len(clients)} streams did not open")
    return OpenMemory(idle_kb, grown_kb / STREAMS)


def open_memory(target: Target) -> OpenMemory:
    """Takes some five seconds. RuntimeError when not every stream opened."""
    return asyncio.run(_measured(target))
