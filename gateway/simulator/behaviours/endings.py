"""The ways a stream ends that are not the proper one."""

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import EVENT_STREAM, Exchange
from gateway.simulator.frames import DONE, Frame, Part, encode
from gateway.simulator.json_values import JsonObject
from gateway.simulator.registry import behaviour
from gateway.simulator.shapes.base import JSON
from gateway.simulator.shapes.openai_chat import choices_of

_ENDS = {Part.FINISH, Part.USAGE, Part.TERMINAL}


def _without(frames: list[Frame], *parts: Part) -> list[Frame]:
    return [frame for frame in frames if frame.part not in parts]


@behaviour("cut-after-{n}", "Resets the connection (RST) after n pieces.", example="cut-after-3")
async def cut_after(exchange: Exchange, texts: float) -> None:
    """A crashed upstream. 0: right after the headers."""
    await exchange.send_part(int(texts))
    await exchange.reset()


@behaviour(
    "eof-after-{n}", "Ends cleanly after n pieces, with no finish and no terminal.", example="eof-after-3"
)
async def eof_after(exchange: Exchange, texts: float) -> None:
    """HTTP says all is well, the answer is not whole."""
    await exchange.send_part(int(texts))


@behaviour("fin-after-{n}", "Closes (FIN) after n pieces, inside the chunked body.", example="fin-after-3")
async def fin_after(exchange: Exchange, texts: float) -> None:
    """A proxy that closed: the last chunk never comes."""
    await exchange.send_part(int(texts))
    await exchange.hang_up()


@behaviour("no-done", "All is there but the terminal ([DONE], message_stop).")
async def no_done(exchange: Exchange) -> None:
    """Many compatible servers do this."""
    await exchange.respond(edit_frames=lambda frames: _without(frames, Part.TERMINAL))


@behaviour("no-finish", "All text and the terminal, but no finish reason anywhere.")
async def no_finish(exchange: Exchange) -> None:
    """The terminal says done, no choice says why. Whole: finish_reason null."""
    await exchange.respond(
        edit_frames=lambda frames: _without(frames, Part.FINISH), edit_whole=_without_finish_reason
    )


def _without_finish_reason(whole: JsonObject) -> JsonObject:
    if "choices" not in whole:
        return whole
    return {**whole, "choices": [{**choice, "finish_reason": None} for choice in choices_of(whole)]}


@behaviour("double-done", "The terminal comes twice.")
async def double_done(exchange: Exchange) -> None:
    """The second one is to be dropped."""
    await exchange.respond(
        edit_frames=lambda frames: [*frames, *(f for f in frames if f.part is Part.TERMINAL)]
    )


@behaviour("finish-then-reset", "Resets the connection after the finish reason, before usage and terminal.")
async def finish_then_reset(exchange: Exchange) -> None:
    """The answer is whole all the same. Not streamed: an ordinary answer."""
    await _up_to_finish(exchange)
    if exchange.ask.stream:
        await exchange.reset()


@behaviour("finish-then-silence", "Falls silent after the finish reason, before usage and terminal.")
async def finish_then_silence(exchange: Exchange) -> None:
    """The answer is whole; how long does the gateway wait for the usage?"""
    await _up_to_finish(exchange)
    if exchange.ask.stream:
        await exchange.silence()


async def _up_to_finish(exchange: Exchange) -> None:
    await exchange.respond(edit_frames=lambda frames: _without(frames, Part.USAGE, Part.TERMINAL))


@behaviour("preamble-only", "Role, message_start and the like, then a clean end.")
async def preamble_only(exchange: Exchange) -> None:
    """Not an answer. Not streamed: an empty JSON object."""
    if not exchange.ask.stream:
        await exchange.begin(JSON)
        await exchange.write(b"{}")
        return
    frames = exchange.shape.frames(echo_of(exchange.ask))
    await exchange.send_frames(_without(frames, Part.TEXT, Part.TOOL, Part.BLOCK_END, *_ENDS))


@behaviour("done-only", "A stream that holds nothing but [DONE]; not streamed: an empty body.")
async def done_only(exchange: Exchange) -> None:
    """An empty answer that looks finished."""
    await exchange.begin(EVENT_STREAM if exchange.ask.stream else JSON)
    if exchange.ask.stream:
        await exchange.write(encode(DONE, exchange.shape.newline))


@behaviour("empty-200", "200 with the right content type and no body at all.")
async def empty_200(exchange: Exchange) -> None:
    """The emptiest success."""
    await exchange.begin(EVENT_STREAM if exchange.ask.stream else JSON)


@behaviour("unterminated-done", "The blank line behind the last event is missing.")
async def unterminated_done(exchange: Exchange) -> None:
    """By the letter of the event-stream rules the last event is dropped; [DONE] is not to be."""
    if not exchange.ask.stream:
        await exchange.respond()
        return
    frames, newline = exchange.shape.frames(echo_of(exchange.ask)), exchange.shape.newline
    await exchange.send_frames(frames[:-1])
    await exchange.write(encode(frames[-1], newline).removesuffix(newline))


@behaviour("truncated-event", "Ends cleanly in the middle of the last piece's JSON.")
async def truncated_event(exchange: Exchange) -> None:
    """Half an event at the end."""
    if not exchange.ask.stream:
        await exchange.send_part(1)
        return
    frames = exchange.shape.frames(echo_of(exchange.ask, at_least=2))
    last = max(number for number, frame in enumerate(frames) if frame.part is Part.TEXT)
    await exchange.send_frames(frames[:last])
    half = encode(frames[last], exchange.shape.newline)
    await exchange.write(half[: len(half) // 2])
