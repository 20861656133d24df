"""The contract of a shape: it reads a request into an `Ask` and writes an `Answer` as events or whole.

Must not import: Django, aiohttp.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import orjson

from gateway.simulator.answer import Answer, Ask
from gateway.simulator.faults import Fault
from gateway.simulator.frames import Frame
from gateway.simulator.json_values import JsonObject
from gateway.simulator.received import Received

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Payload:
    """A whole answer: JSON, or bytes of another content type. Bytes go out in `slices` paced writes."""

    json: JsonObject | None = None
    content: bytes = b""
    content_type: str = JSON
    slices: int = 1

    def body(self) -> bytes:
        """The bytes of the body."""
        return self.content if self.json is None else orjson.dumps(self.json)


class Shape(Protocol):
    """One family of endpoints. `newline` ends the lines of its event streams."""

    newline: bytes

    def ask(self, received: Received) -> Ask:
        """Read the request; nothing in it raises."""
        ...

    def frames(self, answer: Answer) -> list[Frame]:
        """The streamed form, terminal included; empty where the family does not stream."""
        ...

    def whole(self, answer: Answer) -> Payload:
        """The form without streaming."""
        ...

    def error(self, fault: Fault) -> JsonObject:
        """The body of an error answer."""
        ...

    def error_frame(self, fault: Fault) -> Frame:
        """An error inside a stream."""
        ...


def fragments(text: str, count: int = 3) -> Iterator[str]:
    """Cut a text into about `count` parts, none empty: how tool arguments arrive."""
    size = max(1, -(-len(text) // count))
    return (text[start : start + size] for start in range(0, len(text), size))


def joined(texts: Iterable[str]) -> str:
    """Join with spaces, empty ones left out."""
    return " ".join(text for text in texts if text)
