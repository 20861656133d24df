"""Event-stream framing and content types, legal and not."""

import zlib
from dataclasses import replace

import orjson

from gateway.simulator.answer import Answer, echo_of
from gateway.simulator.exchange import EVENT_STREAM, Exchange
from gateway.simulator.frames import Frame, Part, encode, head
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.base import JSON
from gateway.simulator.text import repeat_to

_BATCH_BYTES = 64 * 1024


def _encoded(exchange: Exchange, answer: Answer | None = None) -> list[bytes]:
    frames = exchange.shape.frames(answer or echo_of(exchange.ask))
    return [encode(frame, exchange.shape.newline) for frame in frames]


async def _write_events(exchange: Exchange, events: list[bytes]) -> None:
    """Events written ready-made; a request that does not stream gets an ordinary answer."""
    if not exchange.ask.stream:
        await exchange.respond()
        return
    for event in events:
        await exchange.write(event)


@behaviour("crlf", "Lines end in CR LF.")
async def crlf(exchange: Exchange) -> None:
    """Legal."""
    await exchange.respond(newline=b"\r\n")


@behaviour("cr", "Lines end in CR alone.")
async def cr(exchange: Exchange) -> None:
    """Legal, and rarely handled."""
    await exchange.respond(newline=b"\r")


@behaviour("no-space", "No space behind `data:` and `event:`.")
async def no_space(exchange: Exchange) -> None:
    """Legal."""
    events = [e.replace(b"data: ", b"data:", 1).replace(b"event: ", b"event:", 1) for e in _encoded(exchange)]
    await _write_events(exchange, events)


@behaviour("bom", "The stream begins with a byte order mark.")
async def bom(exchange: Exchange) -> None:
    """Legal."""
    await _write_events(exchange, [b"\xef\xbb\xbf", *_encoded(exchange)])


@behaviour("id-lines", "Events carry `id:` and `retry:` lines.")
async def id_lines(exchange: Exchange) -> None:
    """Legal, but official SDKs stumble over later comments."""
    events = [b"id: %d\nretry: 3000\n%b" % (number, event) for number, event in enumerate(_encoded(exchange))]
    await _write_events(exchange, events)


@behaviour("empty-frames", "Between the events stand frames without data.")
async def empty_frames(exchange: Exchange) -> None:
    """Legal, but official SDKs raise on them."""
    await _write_events(exchange, [b"event: ping\n\n" + event for event in _encoded(exchange)])


@behaviour("multi-line-data", "The JSON of an event is spread over several `data:` lines.")
async def multi_line_data(exchange: Exchange) -> None:
    """Legal."""
    await _write_events(exchange, [_spread(frame) for frame in exchange.shape.frames(echo_of(exchange.ask))])


def _spread(frame: Frame) -> bytes:
    if frame.payload is None:
        return encode(frame)
    lines = orjson.dumps(frame.payload, option=orjson.OPT_INDENT_2).split(b"\n")
    event = b"event: " + frame.event.encode() + b"\n" if frame.event else b""
    return event + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"


@behaviour("one-byte-writes", "Every byte of the stream is a chunk of its own.")
async def one_byte_writes(exchange: Exchange) -> None:
    """Every split there is, in characters and line ends too."""
    whole = b"".join(_encoded(exchange))
    await _write_events(exchange, [whole[at : at + 1] for at in range(len(whole))])


@behaviour("unicode-lines", "The text holds U+2028, U+2029 and U+0085, which end no line.")
async def unicode_lines(exchange: Exchange) -> None:
    """Parsers built on `splitlines` cut here."""
    answer = echo_of(exchange.ask)
    await exchange.respond(replace(answer, pieces=("a\u2028b", "\u2029c", "\u0085d", *answer.pieces)))


@behaviour("not-json-mid", "A frame that is no JSON between two good ones.")
async def not_json_mid(exchange: Exchange) -> None:
    """Cut JSON, and the stream goes on. Whole: JSON that breaks off."""
    if not exchange.ask.stream:
        await exchange.send_part(1)
        return
    frames = exchange.shape.frames(echo_of(exchange.ask, at_least=3))
    first = head(frames, 1)
    await exchange.send_frames(first)
    await exchange.write(
        b'data: {"id":"broken","choices":[{"index":0,"delta":{"cont' + exchange.shape.newline * 2
    )
    await exchange.send_frames(frames[len(first) :])


@behaviour("not-json-first", "The first frame is no JSON; the rest is as it should be.")
async def not_json_first(exchange: Exchange) -> None:
    """Before anything was answered this fails the attempt. Whole: a body that is no JSON."""
    if not exchange.ask.stream:
        await exchange.begin(JSON)
        await exchange.write(b"upstream connect error or disconnect/reset before headers")
        return
    await exchange.write(b"data: upstream connect error" + exchange.shape.newline * 2)
    await exchange.respond()


@behaviour("text-plain-sse", "An event stream that calls itself text/plain.")
async def text_plain_sse(exchange: Exchange) -> None:
    """The wrong label on the right thing; so too a whole answer."""
    await exchange.begin("text/plain; charset=utf-8")
    await exchange.respond()


@behaviour("gzip-sse", "Compressed with gzip although nobody asked, flushed after each event.")
async def gzip_sse(exchange: Exchange) -> None:
    """To be decoded on the way. A whole answer is compressed too."""
    packer = zlib.compressobj(wbits=31)
    answer = echo_of(exchange.ask)
    parts = _encoded(exchange, answer) if exchange.ask.stream else [exchange.payload(answer).body()]
    content_type = EVENT_STREAM if exchange.ask.stream else JSON
    await exchange.begin(content_type, headers={"Content-Encoding": "gzip"})
    for part in parts:
        await exchange.write(packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH))
    await exchange.write(packer.flush())


@behaviour("sse-for-json", "An event stream even where `stream` was false.")
async def sse_for_json(exchange: Exchange) -> None:
    """To be put together."""
    await exchange.send_frames(exchange.shape.frames(echo_of(exchange.ask)))


@behaviour("json-for-sse", "A whole JSON answer even where `stream` was true.")
async def json_for_sse(exchange: Exchange) -> None:
    """Not what was asked for."""
    await exchange.send_payload(exchange.payload(echo_of(exchange.ask)))


@behaviour("big-event-{n}mb", "One event of n MiB, then the end as usual.", example="big-event-8mb")
async def big_event(exchange: Exchange, mebibytes: float) -> None:
    """Up to 256 MiB."""
    size = int(min(mebibytes, 256) * 1024 * 1024)
    await exchange.respond(replace(echo_of(exchange.ask), pieces=("x" * size,)))


@behaviour("many-events-{n}", "n pieces as fast as they go, many in one write.", example="many-events-20000")
async def many_events(exchange: Exchange, count: float) -> None:
    """Up to a million. The receiver sets the pace."""
    answer = echo_of(exchange.ask, at_least=1)
    pieces = repeat_to(answer.pieces, min(max(int(count), 1), 1_000_000))
    answer = replace(answer, pieces=pieces)
    if not exchange.ask.stream:
        await exchange.respond(answer)
        return
    batch = bytearray()
    for frame in exchange.shape.frames(answer):
        batch += encode(frame, exchange.shape.newline)
        if len(batch) >= _BATCH_BYTES or frame.part is Part.FINISH:
            await exchange.write(bytes(batch))
            batch.clear()
    await exchange.write(bytes(batch))
