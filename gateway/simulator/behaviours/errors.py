"""Errors inside a 200."""

from collections.abc import Callable
from dataclasses import replace

from gateway.simulator.answer import echo_of
from gateway.simulator.exchange import Exchange
from gateway.simulator.faults import fault_for
from gateway.simulator.frames import Frame, Part, encode, head
from gateway.simulator.json_values import JsonObject
from gateway.simulator.registry import Run, behaviour
from gateway.simulator.shapes.base import Payload

_FAULT = fault_for(503, "The simulator broke down, as the model name asks.", code="overloaded")
_PAGE = b"<!doctype html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>\n"


async def _fail_after(exchange: Exchange, frames: list[Frame]) -> None:
    if not exchange.ask.stream:
        await exchange.send_error(_FAULT, status=200)
        return
    error = exchange.shape.error_frame(_FAULT)
    if error.payload is not None and "sequence_number" in error.payload:
        error = replace(error, payload={**error.payload, "sequence_number": len(frames)})
    await exchange.send_frames([*frames, error])


@behaviour("error-in-200", "200 with a JSON error object, also where a stream was asked for.")
async def error_in_200(exchange: Exchange) -> None:
    """The wrong status."""
    await exchange.send_error(_FAULT, status=200)


@behaviour("error-first-event", "The first event of the stream is an error.")
async def error_first_event(exchange: Exchange) -> None:
    """Nothing was answered yet, so another channel may be tried. Whole: an error in a 200."""
    await _fail_after(exchange, [])


@behaviour("error-after-preamble", "Role, message_start and the like, then an error.")
async def error_after_preamble(exchange: Exchange) -> None:
    """A held preamble still allows another channel. Whole: an error in a 200."""
    frames = exchange.shape.frames(echo_of(exchange.ask))
    preamble = [frame for frame in head(frames, 1) if frame.part is Part.PREAMBLE]
    await _fail_after(exchange, preamble)


@behaviour("error-mid", "Three pieces, then an error, then the end without a terminal.")
async def error_mid(exchange: Exchange) -> None:
    """Too late for another channel. Whole: an error in a 200."""
    await _fail_after(exchange, head(exchange.shape.frames(echo_of(exchange.ask, at_least=4)), 3))


@behaviour("html-200", "200 with an HTML page, as a proxy in front of an upstream sends.")
async def html_200(exchange: Exchange) -> None:
    """The wrong content type."""
    await exchange.send_payload(Payload(content=_PAGE, content_type="text/html; charset=utf-8"))


_VENDOR_ERRORS: tuple[tuple[str, str, JsonObject, str | None], ...] = (
    ("detail", '{"detail": …} (FastAPI servers)', {"detail": "The engine is dead."}, None),
    (
        "object",
        '{"object": "error"} (vLLM)',
        {"object": "error", "message": "The engine is dead.", "type": "InternalServerError", "code": 500},
        None,
    ),
    ("event", "an event named `error`", {"message": "The engine is dead.", "code": 500}, "error"),
)


def _vendor_error(texts: int, payload: JsonObject, event: str | None) -> Run:
    async def run(exchange: Exchange) -> None:
        if not exchange.ask.stream:
            await exchange.send_payload(Payload(json=payload))
            return
        frames = head(exchange.shape.frames(echo_of(exchange.ask, at_least=texts + 1)), texts)
        await exchange.send_frames(frames)
        await exchange.write(encode(Frame(Part.ERROR, payload, event), exchange.shape.newline))

    return run


def _register_vendor_errors(register: Callable[[str, str], Callable[[Run], Run]]) -> None:
    for name, form, payload, event in _VENDOR_ERRORS:
        register(f"vendor-error-{name}", f"The first event is {form}.")(_vendor_error(0, payload, event))
        register(f"vendor-error-{name}-mid", f"After three pieces: {form}.")(_vendor_error(3, payload, event))


_register_vendor_errors(behaviour)
