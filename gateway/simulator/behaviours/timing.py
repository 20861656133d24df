"""Slow and silent upstreams: each phase's timer has a behaviour that runs into it."""

import asyncio

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import EVENT_STREAM, Exchange
from gateway.simulator.frames import head
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.base import JSON

_COMMENT_EVERY_S = 1.0


@behaviour("slow-headers-{s}", "Sends nothing for so many seconds, then answers.", example="slow-headers-5")
async def slow_headers(exchange: Exchange, wait_s: float) -> None:
    """For the header timer and the non-stream total."""
    await asyncio.sleep(wait_s)
    await exchange.respond()


@behaviour(
    "image-slow-{s}", "A slow, silent image: nothing for so many seconds, then it.", example="image-slow-5"
)
async def image_slow(exchange: Exchange, wait_s: float) -> None:
    """For the image header timer."""
    await asyncio.sleep(wait_s)
    await exchange.respond(pace_s=0)


@behaviour(
    "slow-first-byte-{s}", "200 and headers at once, the first byte later.", example="slow-first-byte-5"
)
async def slow_first_byte(exchange: Exchange, wait_s: float) -> None:
    """The stuck 200."""
    await exchange.begin(EVENT_STREAM if exchange.ask.stream else JSON)
    await asyncio.sleep(wait_s)
    await exchange.respond()


@behaviour(
    "slow-first-event-{s}",
    "Headers at once, comments (blank lines in JSON) meanwhile, the first event later.",
    example="slow-first-event-5",
)
async def slow_first_event(exchange: Exchange, wait_s: float) -> None:
    """Not stuck, only slow: comments restart the first-byte timer."""
    await exchange.comments(wait_s, every_s=min(_COMMENT_EVERY_S, wait_s / 5))
    await exchange.respond()


@behaviour("stall-after-{n}", "Falls silent after n pieces, connection open.", example="stall-after-3")
async def stall_after(exchange: Exchange, texts: float) -> None:
    """For the idle timer."""
    await exchange.send_part(int(texts))
    await exchange.silence()


@behaviour(
    "comments-after-{n}", "After n pieces only comments, one a second, for ever.", example="comments-after-3"
)
async def comments_after(exchange: Exchange, texts: float) -> None:
    """For the event-idle timer: the idle timer sees bytes."""
    await exchange.send_part(int(texts))
    await exchange.comments(None, every_s=_COMMENT_EVERY_S)


@behaviour("interval-{s}", "One piece every so many seconds.", example="interval-40")
async def interval(exchange: Exchange, pace_s: float) -> None:
    """A slow model that is never silent for long enough to be stuck."""
    await exchange.respond(pace_s=pace_s)


@behaviour("long-silence-{s}", "The first piece, a long silence, then the rest.", example="long-silence-40")
async def long_silence(exchange: Exchange, wait_s: float) -> None:
    """The gateway owes its client keepalives meanwhile. A whole answer is silent before its body."""
    if not exchange.ask.stream:
        await exchange.begin(JSON)
        await asyncio.sleep(wait_s)
        await exchange.respond()
        return
    frames = exchange.shape.frames(echo_of(exchange.ask, at_least=2))
    first = head(frames, 1)
    await exchange.send_frames(first)
    await asyncio.sleep(wait_s)
    await exchange.send_frames(frames[len(first) :])


@behaviour("keepalive-only", "200, then only comments (blank lines in JSON), one a second, for ever.")
async def keepalive_only(exchange: Exchange) -> None:
    """For the ceiling of the first event."""
    await exchange.comments(None, every_s=_COMMENT_EVERY_S)


@behaviour("keepalive-then-answer", "A few comments, one between all events too, and the whole answer.")
async def keepalive_then_answer(exchange: Exchange) -> None:
    """Comments are no events and harm nothing."""
    await exchange.comments(0.3, every_s=0.1)
    if not exchange.ask.stream:
        await exchange.respond()
        return
    for frame in exchange.shape.frames(echo_of(exchange.ask)):
        await exchange.send_frames([frame])
        await exchange.write(b": keepalive\n\n")
