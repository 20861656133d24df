"""One event of a streamed answer, and how it looks on the wire.

Must not import: Django, aiohttp.
"""

from dataclasses import dataclass
from enum import StrEnum

import orjson

from gateway.simulator.json_values import JsonObject


class Part(StrEnum):
    """Which part of an answer an event is; behaviours cut, drop and edit by it."""

    PREAMBLE = "preamble"
    TEXT = "text"
    TOOL = "tool"
    BLOCK_END = "block_end"
    FINISH = "finish"
    USAGE = "usage"
    TERMINAL = "terminal"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Frame:
    """An event before it is written: a JSON payload, or literal data such as `[DONE]`."""

    part: Part
    payload: JsonObject | None = None
    event: str | None = None
    literal: bytes = b""

    def data(self) -> bytes:
        """The bytes of the `data:` line."""
        return self.literal if self.payload is None else orjson.dumps(self.payload)


DONE = Frame(Part.TERMINAL, literal=b"[DONE]")


def encode(frame: Frame, newline: bytes = b"\n") -> bytes:
    """The event in the WHATWG event-stream format, blank line included."""
    event = b"event: " + frame.event.encode() + newline if frame.event else b""
    return event + b"data: " + frame.data() + newline + newline


def head(frames: list[Frame], texts: int) -> list[Frame]:
    """The frames up to and with the `texts`-th piece of text (or tool call); 0 gives none at all."""
    seen = 0
    for position, frame in enumerate(frames):
        if seen == texts:
            return frames[:position]
        seen += frame.part in {Part.TEXT, Part.TOOL}
    return frames
