"""HTTP itself, broken or unusual: written to the socket by hand where the library would not."""

import asyncio

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import EVENT_STREAM, Exchange
from gateway.simulator.frames import encode, head
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.base import JSON


def _parts(exchange: Exchange) -> tuple[str, list[bytes]]:
    """Content type and body parts of an ordinary answer, for answers written by hand."""
    answer = echo_of(exchange.ask)
    if not exchange.ask.stream:
        payload = exchange.payload(answer)
        return payload.content_type, [payload.body()]
    frames = exchange.shape.frames(answer)
    return EVENT_STREAM, [encode(frame, exchange.shape.newline) for frame in frames]


@behaviour("reset-before-headers", "Takes the request, then resets the connection (RST).")
async def reset_before_headers(exchange: Exchange) -> None:
    """It may have been billed."""
    await exchange.reset()


@behaviour("close-before-headers", "Takes the request, then closes (FIN) without a word.")
async def close_before_headers(exchange: Exchange) -> None:
    """It may have been billed."""
    await exchange.hang_up()


@behaviour("hang-up", "Answers well and closes the kept-alive connection right after, unannounced.")
async def hang_up(exchange: Exchange) -> None:
    """The next request on that connection fails."""
    content_type, parts = _parts(exchange)
    body = b"".join(parts)
    head_bytes = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    await exchange.write_raw(head_bytes.encode() + body)
    await asyncio.sleep(0.05)
    await exchange.hang_up()


@behaviour("bad-status-line", "The answer begins with something that is no HTTP.")
async def bad_status_line(exchange: Exchange) -> None:
    """Another protocol on that port."""
    await exchange.write_raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    await exchange.hang_up()


@behaviour("bad-chunk", "A chunk size that is no number, after one good piece.")
async def bad_chunk(exchange: Exchange) -> None:
    """Broken framing below the events."""
    await exchange.send_part(1)
    await exchange.write_raw(b"zz\r\nnot a chunk\r\n")
    await exchange.hang_up()


@behaviour("short-body", "Content-Length promises more than comes.")
async def short_body(exchange: Exchange) -> None:
    """Cut, and the length proves it."""
    content_type, parts = _parts(exchange)
    body = b"".join(parts)
    await exchange.begin(content_type, headers={"Content-Length": str(len(body) + 100)})
    await exchange.write(body)
    await exchange.hang_up()


@behaviour("close-delimited", "No length and no chunks: the end of the connection ends the body.")
async def close_delimited(exchange: Exchange) -> None:
    """Legal; a cut looks like a clean end."""
    content_type, parts = _parts(exchange)
    head_bytes = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n"
    await exchange.write_raw(head_bytes.encode() + b"".join(parts))
    await exchange.hang_up()


@behaviour("early-hints", "An informational 103 comes before the answer.")
async def early_hints(exchange: Exchange) -> None:
    """Legal; the answer is the next one."""
    await exchange.write_raw(b"HTTP/1.1 103 Early Hints\r\nLink: </v1>; rel=preconnect\r\n\r\n")
    await exchange.respond()


@behaviour("trailers", "The chunked body ends with trailer fields.")
async def trailers(exchange: Exchange) -> None:
    """Legal."""
    content_type, parts = _parts(exchange)
    head_bytes = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    await exchange.write_raw(head_bytes.encode() + b"".join(chunks) + b"0\r\nX-Checksum: none\r\n\r\n")
    await exchange.hang_up()


@behaviour("big-header-{n}kb", "One response header of n KiB, then the answer.", example="big-header-100kb")
async def big_header(exchange: Exchange, kibibytes: float) -> None:
    """Past the limit of the client."""
    content_type = EVENT_STREAM if exchange.ask.stream else JSON
    size = int(min(kibibytes, 1024) * 1024)
    await exchange.begin(content_type, headers={"X-Padding": "x" * size})
    await exchange.respond()


@behaviour(
    "private-headers", "Headers that a gateway must not hand on: cookie, server, account, rate limits."
)
async def private_headers(exchange: Exchange) -> None:
    """The tenant must not see the operator's account."""
    headers = {
        "Set-Cookie": "session=operator; Path=/",
        "Server": "upstream-internal/1.0",
        "openai-organization": "org-operator",
        "openai-processing-ms": "12",
        "x-ratelimit-remaining-requests": "99",
        "X-Internal-Host": "10.0.0.7",
    }
    await exchange.begin(EVENT_STREAM if exchange.ask.stream else JSON, headers=headers)
    await exchange.respond()


@behaviour(
    "drip-{ms}", "One byte of the first event every so many milliseconds, then the rest.", example="drip-50"
)
async def drip(exchange: Exchange, pace_ms: float) -> None:
    """Bytes come, an event does not. Whole: the first hundred bytes of the body."""
    answer = echo_of(exchange.ask, at_least=2)
    if exchange.ask.stream:
        frames = exchange.shape.frames(answer)
        slow = b"".join(encode(frame, exchange.shape.newline) for frame in head(frames, 1))
        rest = b"".join(encode(frame, exchange.shape.newline) for frame in frames[len(head(frames, 1)) :])
    else:
        body = exchange.payload(answer).body()
        slow, rest = body[:100], body[100:]
    await exchange.begin(EVENT_STREAM if exchange.ask.stream else JSON)
    for at in range(len(slow)):
        await exchange.write(slow[at : at + 1])
        await asyncio.sleep(pace_ms / 1000)
    await exchange.write(rest)
