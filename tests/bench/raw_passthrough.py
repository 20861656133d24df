"""The reference of all ratios: the least a Python gateway can do. Raw ASGI in, aiohttp out, nothing between.

No authentication, no inspection, no record: bytes are written as they come. It runs with the server
settings of the gateway, so a ratio to it is the price of what the gateway adds. Imports nothing of it.
"""

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import uvicorn

Message = MutableMapping[str, Any]
KEPT_HEADERS = (b"content-type", b"content-length", b"cache-control")


class RawPassthrough:
    """An ASGI application that hands each request to `upstream` over one aiohttp session."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.session: aiohttp.ClientSession | None = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        if self.session is None:
            self.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        async with self.session.post(self.upstream + scope["path"], data=body, headers=headers) as answer:
            kept = [
                (name.lower(), value) for name, value in answer.raw_headers if name.lower() in KEPT_HEADERS
            ]
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            while chunk := await answer.content.readany():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="base URL, for example http://127.0.0.1:9000")
    options = parser.parse_args()
    uvicorn.run(
        RawPassthrough(options.upstream),
        host="127.0.0.1",
        port=options.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
