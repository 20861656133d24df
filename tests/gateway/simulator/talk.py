"""A client that listens to the simulator and says exactly what it heard."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from gateway.simulator import Simulator

QUESTION = "one two three four five"


@dataclass
class Heard:
    """What a client heard: status, headers, body, and how it ended."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str | None = None
    is_silent: bool = False
    first_byte_s: float | None = None

    @property
    def events(self) -> list[tuple[str | None, str]]:
        """(event name, data) of each whole event, by the letter of the event-stream format."""
        found = []
        text = self.body.decode().removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        for block in text.split("\n\n")[:-1]:
            name, data = None, []
            for line in block.split("\n"):
                key, _, value = line.partition(":")
                if key == "event":
                    name = value.removeprefix(" ")
                elif key == "data":
                    data.append(value.removeprefix(" "))
            if data:
                found.append((name, "\n".join(data)))
        return found

    @property
    def chunks(self) -> list[dict]:
        return [json.loads(data) for _, data in self.events if data != "[DONE]"]

    @property
    def is_done(self) -> bool:
        return bool(self.events) and self.events[-1][1] == "[DONE]"

    @property
    def text(self) -> str:
        return "".join(
            c["delta"].get("content") or "" for chunk in self.chunks for c in chunk.get("choices") or []
        )

    @property
    def finishes(self) -> list[str]:
        return [c["finish_reason"] for k in self.chunks for c in k.get("choices") or [] if c["finish_reason"]]

    @property
    def usages(self) -> list[dict]:
        return [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]

    @property
    def json(self) -> dict:
        return json.loads(self.body)


async def hear(
    simulator: Simulator,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    data: object = None,
    headers: dict[str, str] | None = None,
    for_s: float = 5.0,
) -> Heard:
    """Ask and listen until the end, an error, or `for_s` seconds of listening."""
    heard, loop = Heard(), asyncio.get_running_loop()
    begun = loop.time()
    async with aiohttp.ClientSession(auto_decompress=False) as client:
        try:
            async with asyncio.timeout(for_s):
                request = client.request(
                    method,
                    URL(simulator.base_url + path, encoded=True),
                    json=body,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                )
                async with request as response:
                    heard.status = response.status
                    heard.headers = {key.lower(): value for key, value in response.headers.items()}
                    while piece := await response.content.readany():
                        heard.first_byte_s = heard.first_byte_s or loop.time() - begun
                        heard.body += piece
        except TimeoutError:
            heard.is_silent = True
        except (aiohttp.ClientError, OSError) as error:
            heard.error = type(error).__name__
    return heard


def chat(model: str, *, stream: bool = True, text: str = QUESTION, **more: object) -> dict[str, object]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}], **more}


async def hear_chat(simulator: Simulator, model: str, *, for_s: float = 5.0, **more: object) -> Heard:
    return await hear(simulator, "/v1/chat/completions", chat(model, **more), for_s=for_s)


async def hear_raw(
    simulator: Simulator, body: object, *, connection: str = "keep-alive", for_s: float = 5.0
) -> tuple[bytes, str]:
    """The bytes on the wire and how the connection ended: "FIN" or "RST" (or "open" after `for_s` seconds)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(simulator.base_url.rsplit(":", 1)[1]))
    sent = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: simulator\r\n"
        f"Connection: {connection}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    writer.write(head.encode() + sent)
    heard, end = b"", "FIN"
    try:
        async with asyncio.timeout(for_s):
            while piece := await reader.read(65536):
                heard += piece
    except ConnectionResetError:
        end = "RST"
    except TimeoutError:
        end = "open"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return heard, end
